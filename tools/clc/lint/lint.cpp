#include "tools/clc/lint/lint.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tools/clc/lint/clang_front_end.hpp"
#include "tools/clc/lint/lint_rules.hpp"
#include "tools/clc/lint/lint_silence.hpp"

namespace clora {
namespace {

// Whether all devices of the set have instructions that clang-14 does not know.
bool is_for_later_clang(const BuildSet& set) {
  const auto is_later = [](const std::string& device) { return device.starts_with("wmma_"); };
  return !set.devices.empty() && std::ranges::all_of(set.devices, is_later);
}

bool is_for_cpu(const std::string& file, const BuildSet& set) {
  const auto is_cpu = [](const std::string& device) {
    return device == "cpu" || device == "avx2" || device == "amx" || device == "avx512_bf16";
  };
  return file.ends_with("_cpu.cl") ||
         (!set.devices.empty() && std::ranges::all_of(set.devices, is_cpu));
}

// Findings without duplicates of location and rule.
class Collected {
 public:
  explicit Collected(const Silence& silence) : silence_(silence) {}

  void add(std::vector<LintFinding> findings, const std::string& options) {
    std::set<Key> of_this_set;
    for (LintFinding& each : findings) {
      const Key key{each.location, each.rule};
      if (silence_.covers(each) || !of_this_set.insert(key).second) continue;
      ++times_[key];
      each.options = options;
      all_.try_emplace(key, std::move(each));
    }
  }

  std::vector<LintFinding> take(std::size_t sets) {
    std::vector<LintFinding> findings;
    for (auto& [key, finding] : all_) {
      if (finding.must_be_in_every_set && times_[key] < sets) continue;
      findings.push_back(std::move(finding));
    }
    return findings;
  }

 private:
  using Key = std::pair<SourceLocation, std::string>;
  const Silence& silence_;
  std::map<Key, LintFinding> all_;
  std::map<Key, std::size_t> times_;
};

}  // namespace

std::vector<LintFinding> lint(const KernelFile& file, const std::vector<BuildSet>& sets,
                              const LintOptions& options) {
  const SourceLocations locations(file.text);
  const Silence silence(file, locations);
  Collected collected(silence);
  collected.add(silence.mistakes(), "");
  std::vector<BuildSet> all = sets.empty() ? std::vector<BuildSet>(1) : sets;
  std::erase_if(all, is_for_later_clang);
  for (const BuildSet& set : all) {
    const ClangReading reading = read_with_clang(file.text, set.options);
    const LintInput input{.file = file,
                          .locations = locations,
                          .reading = reading,
                          .has_options = !set.options.empty(),
                          .is_for_cpu = is_for_cpu(file.name, set)};
    collected.add(findings_in(input, options.house), set.options);
  }
  return collected.take(all.size());
}

}  // namespace clora
