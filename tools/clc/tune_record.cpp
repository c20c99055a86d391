#include "tools/clc/tune_record.hpp"

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/file.hpp"

namespace clora {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kEnds{"trying", "refused", "wrong", "slow", "timed"};

TrialEnd end_of(const std::string& name) {
  std::size_t i = 0;
  while (i < kEnds.size() && kEnds.at(i) != name) ++i;
  return i < kEnds.size() ? static_cast<TrialEnd>(i) : TrialEnd::trying;
}

}  // namespace

std::string_view name_of(TrialEnd end) { return kEnds.at(static_cast<std::size_t>(end)); }

TuneRecord::TuneRecord(std::filesystem::path path, std::string subject)
    : path_(std::move(path)), subject_(std::move(subject)) {
  if (path_.empty()) return;
  try {
    load();
  } catch (const nlohmann::json::exception&) {
    results_.clear();  // damaged
  }
  resumed_ = results_.size();
}

void TuneRecord::load() {
  std::ifstream file(path_);
  if (!file) return;
  const auto json = ordered_json::parse(file);
  if (json.at("subject") != subject_) return;
  for (const ordered_json& each : json.at("candidates")) {
    TrialResult result{
        .end = end_of(each.at("end")), .why = each.at("why"), .seconds = each.at("seconds")};
    if (result.end == TrialEnd::trying) {
      result = {.end = TrialEnd::refused, .why = "an earlier run did not survive it"};
    }
    results_[each.at("values").get<NamedNumbers>()] = std::move(result);
  }
}

const TrialResult* TuneRecord::find(const NamedNumbers& values) const {
  const auto found = results_.find(values);
  return found == results_.end() ? nullptr : &found->second;
}

void TuneRecord::put(const NamedNumbers& values, TrialResult result) {
  results_[values] = std::move(result);
  if (!path_.empty()) store();
}

void TuneRecord::store() const {
  ordered_json candidates = ordered_json::array();
  for (const auto& [values, result] : results_) {
    candidates.push_back({{"values", values},
                          {"end", name_of(result.end)},
                          {"why", result.why},
                          {"seconds", result.seconds}});
  }
  const ordered_json json{{"subject", subject_}, {"candidates", std::move(candidates)}};
  std::filesystem::create_directories(path_.parent_path().empty() ? "." : path_.parent_path());
  write_file_atomically(path_, std::string_view(json.dump(1) + '\n'));
}

}  // namespace clora
