#include "tools/clora/bench/bench_charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/command_line/svg.hpp"

namespace clora {
namespace {

constexpr double kWidth = 960, kRow = 24, kTop = 6, kBottom = 24;
constexpr double kLeft = 390, kRight = 710;  // horizontal range of the bars
constexpr double kFigures = kRight + 14;     // position of their numbers

struct Axis {  // maps values to kLeft .. kRight
  double low, high;
  double x(double value) const {
    return kLeft + std::clamp((value - low) / (high - low), 0.0, 1.0) * (kRight - kLeft);
  }
};

double height_of(std::size_t rows) { return kTop + kRow * static_cast<double>(rows) + kBottom; }
double middle_of(std::size_t row) { return kTop + kRow * (static_cast<double>(row) + 0.5); }

std::string chart(std::size_t rows, std::string_view title, std::string_view content) {
  return svg_inline(kWidth, height_of(rows), title, content);
}

std::string mark(double x, std::size_t rows, std::string_view text) {
  const double floor = height_of(rows) - kBottom;
  return svg_vertical_line("grid", x, kTop, floor) +
         svg_text({{"class", "mark"},
                   {"x", svg_tenths(x)},
                   {"y", floor + 16},
                   {"text-anchor", "middle"}},
                  text) +
         "\n";
}

std::string label(std::size_t row, std::string_view text) {
  return svg_text(
      {{"class", "name"}, {"x", kLeft - 10}, {"y", middle_of(row) + 4}, {"text-anchor", "end"}},
      text);
}

std::string figures(std::size_t row, std::string_view text) {
  return svg_text({{"x", kFigures}, {"y", middle_of(row) + 4}}, text) + "\n";
}

std::string bar_of(std::size_t row, double from, double to, std::string_view style) {
  return svg_element("rect", {{"class", style},
                              {"x", svg_tenths(std::min(from, to))},
                              {"y", middle_of(row) - 7},
                              {"width", svg_tenths(std::max(std::abs(to - from), 1.0))},
                              {"height", 14},
                              {"rx", 2}});
}

std::string whisker(std::size_t row, double from, double to) {
  const std::string path = fmt::format("M{0:.1f} {2}V{3}M{0:.1f} {4}H{1:.1f}M{1:.1f} {2}V{3}", from,
                                       to, middle_of(row) - 4, middle_of(row) + 4, middle_of(row));
  return svg_element("path", {{"class", "whisker"}, {"d", path}});
}

std::string style_of(const BenchRow& row) { return row.form.empty() ? "fused" : row.form; }

std::string figures_of(const BenchRow& row) {
  if (!row.error.empty()) return row.error;
  std::string text = readable_time(row.typical_us());
  if (row.percent_of_roofline > 0) {
    text += fmt::format(" · {:.0f} %", row.typical(row.percent_of_roofline));
  }
  if (row.gflops > row.gbps) {
    text += fmt::format(" · {} GFLOP/s", three_digits(row.typical(row.gflops)));
  } else if (row.gbps > 0) {
    text += fmt::format(" · {} GB/s", three_digits(row.typical(row.gbps)));
  }
  return row.note.empty() ? text : text + " · " + row.note;
}

// A bar and its whisker. value(us) maps a time to the value on the axis.
template <class Value>
std::string row_of_chart(std::size_t i, const BenchRow& row, const Axis& axis, Value value) {
  std::string text = label(i, row.rest.empty() ? row.name : row.rest);
  if (!row.samples.empty()) {
    text += bar_of(i, kLeft, axis.x(value(row.typical_us())), style_of(row));
    const auto [least, most] = std::ranges::minmax(row.samples);
    if (most > least) text += whisker(i, axis.x(value(least)), axis.x(value(most)));
  }
  return text + figures(i, figures_of(row));
}

std::string shares_chart(std::span<const BenchRow> rows) {
  const Axis axis{0, 100};
  std::string text;
  for (const int percent : {0, 25, 50, 75, 100}) {
    text += mark(axis.x(percent), rows.size(), fmt::format("{} %", percent));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    // The percentage of the roofline is inversely proportional to the time.
    const double at_best = rows[i].percent_of_roofline * rows[i].best_us;
    text += row_of_chart(i, rows[i], axis, [at_best](double us) { return at_best / us; });
  }
  return chart(rows.size(), rows.front().op + ", share of the roofline", text);
}

std::string times_chart(std::span<const BenchRow> rows) {
  Axis axis{0, 0};
  for (const BenchRow& row : rows) {
    for (const double us : row.samples) axis.high = std::max(axis.high, us);
  }
  if (axis.high == 0) axis.high = 1;
  std::string text;
  text += mark(axis.x(0), rows.size(), "0") +
          mark(axis.x(axis.high), rows.size(), readable_time(axis.high));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += row_of_chart(i, rows[i], axis, [](double us) { return us; });
  }
  return chart(rows.size(), rows.front().op + ", time", text);
}

}  // namespace

std::string rows_chart(std::span<const BenchRow> rows) {
  const bool shares = std::ranges::all_of(
      rows, [](const BenchRow& row) { return row.percent_of_roofline > 0 || row.samples.empty(); });
  return shares ? shares_chart(rows) : times_chart(rows);
}

std::vector<FusedGain> fused_gains(const BenchResults& results) {
  std::vector<FusedGain> gains;
  for (const BenchRow& row : results.rows) {
    if (row.form != "fused" || row.samples.empty()) continue;
    const std::string rest = row.rest.substr(row.form.size());
    const BenchRow* other = results.find(row.op + "/unfused" + rest);
    if (other == nullptr || other->samples.empty()) continue;
    gains.push_back({row.op + rest, other->typical_us() / row.typical_us()});
  }
  return gains;
}

std::string gains_chart(const std::vector<FusedGain>& gains) {
  double high = 1.5;
  for (const FusedGain& gain : gains) high = std::max(high, gain.factor);
  const Axis axis{0, std::ceil(high * 2) / 2};
  std::string text;
  const double step = axis.high > 4 ? 1 : 0.5;
  for (int i = 0; i * step <= axis.high; ++i) {
    const double factor = i * step;
    text += mark(axis.x(factor), gains.size(), fmt::format("{:g}", factor));
  }
  for (std::size_t i = 0; i < gains.size(); ++i) {
    const double x = axis.x(gains[i].factor);
    text += label(i, gains[i].name) +
            bar_of(i, axis.x(1), x, gains[i].factor >= 1 ? "faster" : "slower") +
            figures(i, fmt::format("{:.2f} × the fused time", gains[i].factor));
  }
  return chart(gains.size(), "Time of unfused and fused ops", text);
}

std::string comparison_chart(const std::vector<Comparison>& comparisons) {
  std::vector<Comparison> decided;
  std::ranges::copy_if(comparisons, std::back_inserter(decided), [](const Comparison& comparison) {
    return comparison.verdict == Verdict::faster || comparison.verdict == Verdict::slower;
  });
  std::ranges::sort(decided, {},
                    [](const Comparison& comparison) { return comparison.interval.ratio; });
  double reach = 0.1;
  for (const Comparison& one : decided) reach = std::max(reach, std::abs(one.interval.ratio - 1));
  reach = std::min(std::ceil(reach * 10) / 10, 1.0);
  const Axis axis{1 - reach, 1 + reach};
  std::string text;
  for (const double share : {-1.0, -0.5, 0.0, 0.5, 1.0}) {
    text += mark(axis.x(1 + share * reach), decided.size(),
                 fmt::format("{:+.0f} %", 100 * share * reach));
  }
  for (std::size_t i = 0; i < decided.size(); ++i) {
    const RatioInterval& interval = decided[i].interval;
    text += label(i, decided[i].name) +
            bar_of(i, axis.x(1), axis.x(interval.ratio), name_of(decided[i].verdict)) +
            whisker(i, axis.x(interval.low), axis.x(interval.high)) +
            figures(i, verdict_text(decided[i]));
  }
  return chart(decided.size(), "Time of the new run next to the old run", text);
}

}  // namespace clora
