#include "tools/clora/report/run_charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace clora {
namespace {

// A field of events whose chart has a title of its own. Fields that share `group` share a chart.
struct KnownField {
  std::string_view field, group, label, title, unit;
  bool is_bytes = false;
};
constexpr std::array kKnown{
    KnownField{"loss", "loss", "", "Loss", "nats per token"},
    KnownField{"rewards", "rewards", "", "Rewards", "nats"},
    KnownField{"grad_norm", "grad_norm", "", "Gradient norm", "before clipping"},
    KnownField{"learning_rate", "learning_rate", "", "Learning rate", ""},
    KnownField{"tokens_per_s", "tokens_per_s", "", "Speed", "tokens per second"},
    KnownField{"in_use_bytes", "memory", "in use", "Device memory", "", true},
    KnownField{"peak_bytes", "memory", "peak", "Device memory", "", true},
    KnownField{"balance_loss", "balance_loss", "", "Balance of experts", "loss without its weight"},
    KnownField{"tokens", "tokens", "", "Labelled tokens", "per step or evaluation"},
};

// Fields without an entry come before the last one: counts of tokens say least.
std::size_t order_of(std::string_view field) {
  const auto found = std::ranges::find(kKnown, field, &KnownField::field);
  const auto at = static_cast<std::size_t>(found - kKnown.begin());
  return found == kKnown.end() - 1 ? kKnown.size() : std::min(at, kKnown.size() - 1);
}

const KnownField* known(std::string_view field) {
  const auto found = std::ranges::find(kKnown, field, &KnownField::field);
  return found == kKnown.end() ? nullptr : &*found;
}

std::string group_of(const Series& series) {
  const KnownField* field = known(series.group);
  return field != nullptr ? std::string(field->group) : series.group;
}

// "recall_at_10" -> "Recall at 10"
std::string words_of(std::string name) {
  std::ranges::replace(name, '_', ' ');
  if (!name.empty() && name[0] >= 'a' && name[0] <= 'z') name[0] = static_cast<char>(name[0] - 32);
  return name;
}

std::string event_words(const Series& series) {
  if (series.is_of_steps()) return "training";
  return series.event == "eval" ? "held out" : series.event;
}

std::string label_of(const Series& series) {
  const KnownField* field = known(series.group);
  std::string label = field != nullptr ? std::string(field->label) : std::string();
  if (!series.name.empty()) label += (label.empty() ? "" : " ") + series.name;
  std::ranges::replace(label, '_', ' ');
  if (label.empty()) return event_words(series);
  return series.is_of_steps() ? label : label + ", " + event_words(series);
}

LineChart empty_chart(const Series& series) {
  const KnownField* field = known(series.group);
  LineChart chart{words_of(series.group), "", false, {}};
  if (field == nullptr) return chart;
  chart.title = field->title;
  chart.unit = field->unit;
  chart.is_bytes = field->is_bytes;
  return chart;
}

std::vector<const Series*> in_order(const RunRecord& record) {
  std::vector<const Series*> all;
  for (const Series& series : record.series()) {
    // How many tokens an evaluation has is the same each time.
    if (series.group != "tokens" || series.is_of_steps()) all.push_back(&series);
  }
  std::ranges::stable_sort(all, {}, [](const Series* one) { return order_of(one->group); });
  return all;
}

// "12.q_proj" -> "12", "q_proj"; "lm_head" -> "", "lm_head"
std::pair<std::string, std::string> block_and_target(const std::string& key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) return {"", key};
  return {key.substr(0, dot), key.substr(dot + 1)};
}

void add_square(NamedNorms& norms, const std::string& name, double norm) {
  const auto found = std::ranges::find(norms, name, &NamedNorms::value_type::first);
  if (found == norms.end()) {
    norms.emplace_back(name, norm);
  } else {
    found->second = std::hypot(found->second, norm);
  }
}

// Puts `value` at the row and column of these names, which are added if they are new.
void set(HeatMap& map, const std::string& row, const std::string& column, double value) {
  const auto index_of = [](std::vector<std::string>& names, const std::string& name) {
    const auto found = std::ranges::find(names, name);
    const auto at = static_cast<std::size_t>(found - names.begin());
    if (found == names.end()) names.push_back(name);
    return at;
  };
  const std::size_t i = index_of(map.rows, row), j = index_of(map.columns, column);
  map.values.resize(map.rows.size());
  for (auto& values : map.values) values.resize(map.columns.size(), NAN);
  map.values[i][j] = value;
}

std::string block_name(const std::string& block) { return block.empty() ? "other" : block; }

// "q_proj" -> "q": the part that all names share says nothing in a narrow column.
std::string short_target(const std::string& target) {
  return target.ends_with("_proj") ? target.substr(0, target.size() - 5) : target;
}

}  // namespace

std::vector<LineChart> charts_of(const RunRecord& record) {
  std::vector<LineChart> charts;
  std::vector<std::string> groups;
  for (const Series* series : in_order(record)) {
    const std::string group = group_of(*series);
    const auto found = std::ranges::find(groups, group);
    const auto at = static_cast<std::size_t>(found - groups.begin());
    if (found == groups.end()) {
      groups.push_back(group);
      charts.push_back(empty_chart(*series));
      charts.back().marks = record.resumed();
    }
    LineChart& chart = charts[at];
    chart.lines.push_back({label_of(*series), chart.lines.size() % kChartColours,
                           !series->is_of_steps(), series->points});
  }
  for (LineChart& chart : charts) {
    if (chart.lines.size() == 1) chart.lines[0].label = "last";
  }
  return charts;
}

std::vector<LineChart> charts_of(std::span<const RunRecord* const> records,
                                 std::span<const std::string> names) {
  std::vector<LineChart> charts;
  std::vector<std::string> titles;
  for (std::size_t run = 0; run < records.size(); ++run) {
    for (const Series* series : in_order(*records[run])) {
      const std::string label = label_of(*series);
      LineChart chart = empty_chart(*series);
      if (label != "training") chart.title += ", " + label;
      const auto found = std::ranges::find(titles, chart.title);
      const auto at = static_cast<std::size_t>(found - titles.begin());
      if (found == titles.end()) {
        titles.push_back(chart.title);
        charts.push_back(std::move(chart));
      }
      charts[at].lines.push_back(
          {names[run], run % kChartColours, !series->is_of_steps(), series->points});
    }
  }
  return charts;
}

NamedNorms norms_by_target(const NormsAtStep& norms) {
  NamedNorms sums;
  for (const auto& [key, norm] : norms.norms) add_square(sums, block_and_target(key).second, norm);
  return sums;
}

NamedNorms norms_by_block(const NormsAtStep& norms) {
  NamedNorms sums;
  for (const auto& [key, norm] : norms.norms) add_square(sums, block_and_target(key).first, norm);
  return sums;
}

LineChart norm_chart(const RunRecord& record) {
  LineChart chart{"Adapter norm", "by target module", false, {}};
  for (const NormsAtStep& at : record.norms()) {
    for (const auto& [target, norm] : norms_by_target(at)) {
      const auto found = std::ranges::find(chart.lines, target, &ChartLine::label);
      ChartLine& line = found != chart.lines.end()
                            ? *found
                            : chart.lines.emplace_back(
                                  ChartLine{target, chart.lines.size() % kChartColours, true, {}});
      line.points.push_back({at.step, norm});
    }
  }
  return chart;
}

std::vector<HeatMap> norm_maps(const RunRecord& record) {
  constexpr std::size_t kMostColumns = 24;
  const auto& all = record.norms();
  if (all.empty()) return {};
  HeatMap targets{"Adapter norms at the last step", "block", "module", {}, {}, {}};
  for (const auto& [key, norm] : all.back().norms) {
    const auto [block, target] = block_and_target(key);
    set(targets, block_name(block), short_target(target), norm);
  }
  HeatMap steps{"Adapter norms over steps", "block", "step", {}, {}, {}};
  const std::size_t nth = (all.size() + kMostColumns - 1) / kMostColumns;
  for (std::size_t i = (all.size() - 1) % nth; i < all.size(); i += nth) {
    for (const auto& [block, norm] : norms_by_block(all[i])) {
      set(steps, block_name(block), std::to_string(all[i].step), norm);
    }
  }
  return {targets, steps};
}

}  // namespace clora
