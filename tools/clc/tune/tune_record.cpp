#include "tools/clc/tune/tune_record.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "clora/runtime/error.hpp"
#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"

namespace clora {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kEnds{"trying", "refused", "wrong", "slow", "timed"};

TrialEnd end_of(const std::string& name) {
  std::size_t i = 0;
  while (i < kEnds.size() && kEnds.at(i) != name) ++i;
  return i < kEnds.size() ? static_cast<TrialEnd>(i) : TrialEnd::trying;
}

NamedNumbers numbers_in(const OrderedJsonKeys& values) {
  NamedNumbers numbers;
  for (const auto& [name, number] : values.value().items()) numbers[name] = values.integer(name);
  return numbers;
}

}  // namespace

std::string_view name_of(TrialEnd end) { return kEnds.at(static_cast<std::size_t>(end)); }

TuneRecord::TuneRecord(std::filesystem::path path, std::string subject)
    : path_(std::move(path)), subject_(std::move(subject)) {
  if (path_.empty()) return;
  try {
    load();
  } catch (const Error&) {
    results_.clear();  // damaged
  }
  resumed_ = results_.size();
}

void TuneRecord::load() {
  if (!std::filesystem::is_regular_file(path_)) return;
  const auto document = parse_json<ordered_json>(MappedFile::open(path_).text(), path_.string());
  const OrderedJsonKeys record(document, path_.string());
  if (record.text("subject") != subject_) return;
  const ordered_json* candidates = record.find("candidates");
  if (candidates == nullptr) return;
  for (const ordered_json& each : *candidates) {
    const OrderedJsonKeys candidate(each, path_.string(), "candidates");
    TrialResult result{.end = end_of(candidate.text("end")),
                       .why = candidate.text("why"),
                       .seconds = candidate.number("seconds")};
    if (result.end == TrialEnd::trying) {
      result = {.end = TrialEnd::refused, .why = "it crashed an earlier run"};
    }
    results_[numbers_in(candidate.object("values"))] = std::move(result);
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
  write_file_atomically(path_, (json_text(json, 1) + '\n'));
}

}  // namespace clora
