#include "tools/clc/tune/tune_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "tools/clc/bench/bench_report.hpp"
#include "tools/clc/text_table.hpp"
#include "tools/clc/tune/tune_space.hpp"

namespace clora {
namespace {

constexpr std::size_t kShown = 8;

std::size_t count(const TuneRecord& record, TrialEnd end) {
  return static_cast<std::size_t>(
      std::ranges::count(record.results(), end, [](const auto& each) { return each.second.end; }));
}

}  // namespace

std::string trial_text(const TrialResult& result) {
  const std::string took = result.is_timed() ? " " + time_text(result.seconds) : "";
  return fmt::format("{}{}{}", name_of(result.end), took,
                     result.why.empty() ? "" : ", " + result.why);
}

std::string fastest_table(const TuneRecord& record) {
  std::vector<std::pair<double, NamedNumbers>> timed;
  for (const auto& [values, result] : record.results()) {
    if (result.is_timed()) timed.emplace_back(result.seconds, values);
  }
  std::ranges::sort(timed);
  if (timed.size() > kShown) timed.resize(kShown);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [seconds, values] : timed) {
    rows.push_back({values_text(values), time_text(seconds)});
  }
  return table_of(rows, 2);
}

std::string counts_text(const TuneRecord& record) {
  return fmt::format("{} candidates: {} timed, {} dropped as slow, {} wrong, {} refused",
                     record.results().size(), count(record, TrialEnd::timed),
                     count(record, TrialEnd::slow), count(record, TrialEnd::wrong),
                     count(record, TrialEnd::refused));
}

std::string gain_text(const Finalist& finalist) {
  const MedianRatio& ratio = finalist.of_untuned;
  return fmt::format("{}: {}, untuned {}; gain {:.3f}x ({:.3f} to {:.3f})",
                     values_text(finalist.values), time_text(finalist.seconds),
                     time_text(finalist.untuned_seconds), 1 / ratio.ratio, 1 / ratio.high,
                     1 / ratio.low);
}

nlohmann::ordered_json candidates_json(const TuneRecord& record) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& [values, result] : record.results()) {
    all.push_back({{"values", values},
                   {"end", name_of(result.end)},
                   {"why", result.why},
                   {"seconds", result.seconds}});
  }
  return all;
}

nlohmann::ordered_json gain_json(const Finalist& finalist) {
  const MedianRatio& ratio = finalist.of_untuned;
  return {{"values", finalist.values},
          {"seconds", finalist.seconds},
          {"gain", 1 / ratio.ratio},
          {"gain_low", 1 / ratio.high},
          {"gain_high", 1 / ratio.low}};
}

}  // namespace clora
