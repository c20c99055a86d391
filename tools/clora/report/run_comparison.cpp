#include "tools/clora/report/run_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "tools/clora/report/run_page.hpp"
#include "tools/command_line/output.hpp"

namespace clora {
namespace {

constexpr const char* kNone = "–";

std::optional<double> last_of(const SeriesPoints& points) {
  return points.empty() ? std::nullopt : std::optional(points.back().value);
}

std::optional<std::string> value_of(const std::vector<std::pair<std::string, std::string>>& all,
                                    const std::string& name) {
  const auto found = std::ranges::find(all, name, &std::pair<std::string, std::string>::first);
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

// The settings, and what of the log determines a run as well.
std::vector<std::pair<std::string, std::string>> facts_of(const LoggedRun& run) {
  constexpr std::array<std::string_view, 4> kOfNoEffect{"adapter-out", "report", "samples",
                                                        "tensorboard"};
  auto facts = run.settings;
  std::erase_if(facts, [&](const auto& fact) {
    return std::ranges::find(kOfNoEffect, fact.first) != kOfNoEffect.end();
  });
  const nlohmann::ordered_json& start = run.record.start();
  if (!start.is_object()) return facts;
  for (const auto& [key, name] : {std::pair{"device", "device used"},
                                  {"records", "training records"},
                                  {"valid_records", "held-out records"}}) {
    const auto found = start.find(key);
    if (found == start.end()) continue;
    if (found->is_string()) facts.emplace_back(name, found->get<std::string>());
    if (found->is_number()) facts.emplace_back(name, found->dump());
  }
  return facts;
}

std::string cell(const std::optional<double>& value, const char* format = "{:.4f}") {
  return value ? fmt::format(fmt::runtime(format), *value) : kNone;
}

std::string steps_cell(const RunResults& results) {
  if (results.steps == results.planned_steps || results.planned_steps == 0) {
    return grouped(results.steps);
  }
  return fmt::format("{} of {}", grouped(results.steps), grouped(results.planned_steps));
}

// The number of characters; each takes a column.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string cut(const std::string& text) {
  constexpr std::size_t kMost = 40;
  if (width_of(text) <= kMost) return text;
  std::size_t bytes = 0;
  for (std::size_t count = 0; count < kMost; ++bytes) {
    count += (static_cast<unsigned char>(text[bytes]) & 0xc0U) != 0x80U ? 1 : 0;
  }
  return text.substr(0, bytes - 1) + "…";
}

void append_line(std::vector<std::string>& lines, const std::vector<std::string>& cells,
                 const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string text = cut(cells[i]);
    const std::string space(widths[i] - width_of(text), ' ');
    line += i == 0 ? text + space : "  " + space + text;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  lines.push_back(std::move(line));
}

}  // namespace

RunResults results_of(const RunRecord& record) {
  RunResults results{.state = state_of(record, "cut"),
                     .steps = record.last_step(),
                     .planned_steps = record.planned_steps(),
                     .loss = {},
                     .held_out = last_of(record.points("eval", "loss")),
                     .best = {},
                     .seconds = record.seconds(),
                     .tokens_per_s = {},
                     .peak_bytes = last_of(record.points("step", "peak_bytes"))};
  const SeriesPoints& losses = record.points("step", "loss");
  if (!losses.empty()) results.loss = level_at_end(losses);
  const SeriesPoint* const best = lowest(record.points("eval", "loss"));
  if (best != nullptr) results.best = *best;
  const SeriesPoints& speeds = record.points("step", "tokens_per_s");
  if (!speeds.empty()) results.tokens_per_s = median_of(speeds);
  return results;
}

std::vector<DifferingSetting> differing_settings(const std::vector<LoggedRun>& runs) {
  std::vector<std::vector<std::pair<std::string, std::string>>> facts;
  for (const LoggedRun& run : runs) facts.push_back(facts_of(run));
  std::vector<DifferingSetting> differing;
  std::vector<std::string> seen;
  for (const auto& of_run : facts) {
    for (const auto& [name, ignored] : of_run) {
      if (std::ranges::find(seen, name) != seen.end()) continue;
      seen.push_back(name);
      DifferingSetting setting{name, {}};
      for (const auto& other : facts) setting.values.push_back(value_of(other, name));
      const bool same =
          std::ranges::count(setting.values, setting.values.front()) == std::ssize(setting.values);
      if (!same) differing.push_back(std::move(setting));
    }
  }
  return differing;
}

TextTable results_table(const std::vector<LoggedRun>& runs) {
  TextTable table{{"run", "state", "steps", "loss", "held out", "lowest", "at step", "time",
                   "tokens/s", "memory"},
                  {}};
  for (const LoggedRun& run : runs) {
    const RunResults results = results_of(run.record);
    const auto& best = results.best;
    table.rows.push_back({run.name, results.state, steps_cell(results), cell(results.loss),
                          cell(results.held_out), best ? fmt::format("{:.4f}", best->value) : kNone,
                          best ? grouped(best->step) : kNone,
                          results.seconds ? clock_time(*results.seconds) : kNone,
                          cell(results.tokens_per_s, "{:.0f}"),
                          results.peak_bytes ? readable_bytes(*results.peak_bytes) : kNone});
  }
  return table;
}

TextTable settings_table(const std::vector<LoggedRun>& runs) {
  TextTable table{{"setting"}, {}};
  for (const LoggedRun& run : runs) table.head.push_back(run.name);
  for (const DifferingSetting& setting : differing_settings(runs)) {
    std::vector<std::string> row{setting.name};
    for (const auto& value : setting.values) row.push_back(value.value_or(kNone));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<std::string> lines_of(const TextTable& table) {
  std::vector<std::size_t> widths(table.head.size());
  const auto widen = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(cut(cells[i])));
    }
  };
  widen(table.head);
  for (const auto& row : table.rows) widen(row);
  std::vector<std::string> lines;
  append_line(lines, table.head, widths);
  for (const auto& row : table.rows) append_line(lines, row, widths);
  return lines;
}

std::vector<nlohmann::ordered_json> json_of(const std::vector<LoggedRun>& runs) {
  const std::vector<DifferingSetting> differing = differing_settings(runs);
  const auto json = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  std::vector<nlohmann::ordered_json> objects;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunResults results = results_of(runs[i].record);
    nlohmann::ordered_json settings = nlohmann::ordered_json::object();
    for (const DifferingSetting& setting : differing) {
      if (setting.values[i]) settings[setting.name] = *setting.values[i];
    }
    objects.push_back({{"run", runs[i].name},
                       {"state", results.state},
                       {"steps", results.steps},
                       {"planned_steps", results.planned_steps},
                       {"loss", json(results.loss)},
                       {"held_out_loss", json(results.held_out)},
                       {"lowest_held_out_loss",
                        results.best ? json(results.best->value) : nlohmann::ordered_json()},
                       {"lowest_at_step", results.best ? nlohmann::ordered_json(results.best->step)
                                                       : nlohmann::ordered_json()},
                       {"seconds", json(results.seconds)},
                       {"tokens_per_s", json(results.tokens_per_s)},
                       {"peak_bytes", json(results.peak_bytes)},
                       {"settings", std::move(settings)}});
  }
  return objects;
}

}  // namespace clora
