#include "ops/tuned_table.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "runtime/error.hpp"
#include "runtime/file.hpp"

namespace clora {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kFormat = "clora tuned kernels";
constexpr int kVersion = 1;

ordered_json json_of(const TunedEntry& entry) {
  return {{"device", entry.of.device},   {"driver", entry.driver},
          {"file", entry.of.file},       {"kernel", entry.of.kernel},
          {"options", entry.of.options}, {"sizes", entry.of.sizes},
          {"values", entry.values},      {"seconds", entry.seconds},
          {"preset_seconds", entry.preset_seconds}};
}

TunedEntry entry_of(const ordered_json& json) {
  return {.of = {json.at("device"), json.at("file"), json.at("kernel"), json.at("options"),
                 json.at("sizes").get<NamedNumbers>()},
          .values = json.at("values").get<NamedNumbers>(),
          .driver = json.at("driver"),
          .seconds = json.at("seconds"),
          .preset_seconds = json.at("preset_seconds")};
}

bool is_same_kernel(const TunedKernel& a, const TunedKernel& b) {
  return std::tie(a.device, a.file, a.kernel) == std::tie(b.device, b.file, b.kernel) &&
         sorted_options(a.options) == sorted_options(b.options);
}

auto order_of(const TunedKernel& kernel) {
  return std::tuple(kernel.device, kernel.file, kernel.kernel, sorted_options(kernel.options),
                    kernel.sizes);
}

// A size that only one of them has, or that is no length, does not tell them apart.
double distance(const NamedNumbers& measured, const NamedNumbers& wanted) {
  double sum = 0;
  for (const auto& [name, size] : wanted) {
    const auto found = measured.find(name);
    if (found == measured.end() || found->second <= 0 || size <= 0) continue;
    sum += std::abs(std::log(static_cast<double>(found->second) / static_cast<double>(size)));
  }
  return sum;
}

}  // namespace

TunedTable TunedTable::parse(std::string_view text, std::string_view name) {
  TunedTable table;
  try {
    const auto json = ordered_json::parse(text);
    if (json.at("format") != kFormat || json.at("version") != kVersion) {
      fail(ErrorCode::invalid_file, "tuned table: {} is none of version {}; clc tune writes them",
           name, kVersion);
    }
    for (const ordered_json& entry : json.at("kernels")) table.put(entry_of(entry));
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::invalid_file, "tuned table: {} is none: {}; remove it, or tune anew", name,
         error.what());
  }
  return table;
}

TunedTable TunedTable::read(const std::filesystem::path& path) {
  if (path.empty() || !std::filesystem::exists(path)) return {};
  const MappedFile file = MappedFile::open(path);
  const auto bytes = file.bytes();
  return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

const TunedEntry* TunedTable::nearest(const TunedKernel& wanted) const {
  const TunedEntry* best = nullptr;
  double least = 0;
  for (const TunedEntry& entry : entries_) {
    if (!is_same_kernel(entry.of, wanted)) continue;
    const double apart = distance(entry.of.sizes, wanted.sizes);
    if (best != nullptr && apart >= least) continue;
    best = &entry;
    least = apart;
  }
  return best;
}

void TunedTable::put(TunedEntry entry) {
  remove(entry.of);
  const auto place = std::ranges::upper_bound(
      entries_, order_of(entry.of), {}, [](const TunedEntry& each) { return order_of(each.of); });
  entries_.insert(place, std::move(entry));
}

void TunedTable::remove(const TunedKernel& kernel) {
  std::erase_if(entries_,
                [&](const TunedEntry& each) { return order_of(each.of) == order_of(kernel); });
}

std::string TunedTable::text() const {
  ordered_json kernels = ordered_json::array();
  for (const TunedEntry& entry : entries_) kernels.push_back(json_of(entry));
  const ordered_json json{{"format", kFormat}, {"version", kVersion}, {"kernels", kernels}};
  return json.dump(1) + '\n';
}

void TunedTable::write(const std::filesystem::path& path) const {
  write_file_atomically(path, std::string_view(text()));
}

std::vector<std::string> sorted_options(std::string_view options) {
  std::istringstream stream{std::string(options)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    if (!words.empty() && (words.back() == "-D" || words.back() == "-I")) {
      words.back() += word;
    } else {
      words.push_back(std::move(word));
    }
  }
  for (std::string& word : words) {
    if (word.starts_with("-D") && word.find('=') == std::string::npos) word += "=1";
  }
  std::ranges::sort(words);
  return words;
}

}  // namespace clora
