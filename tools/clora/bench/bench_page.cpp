#include "tools/clora/bench/bench_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "tools/clora/bench/bench_charts.hpp"
#include "tools/clora/report/html_page.hpp"
#include "tools/command_line/markup.hpp"

namespace clora {
namespace {

constexpr const char* kStyle = R"(:root { --fused: #2b6cd4; --unfused: #d9822b;
  --library: #8a93a3; --faster: #2e9457; --slower: #cf4a3c }
@media (prefers-color-scheme: dark) {
  :root { --fused: #6ea5f7; --unfused: #eda75c; --library: #7d8797; --faster: #5cc489;
    --slower: #f08072 }
}
.key i { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin: 0 5px 0 14px }
svg .name { font-family: ui-monospace, monospace; font-size: 11.5px }
svg .mark { fill: var(--soft); font-size: 11px }
.whisker { stroke: var(--ink); stroke-width: 1; fill: none; opacity: .7 }
.fused { fill: var(--fused); background: var(--fused) }
.unfused { fill: var(--unfused); background: var(--unfused) }
.library { fill: var(--library); background: var(--library) }
.faster { fill: var(--faster) } .slower { fill: var(--slower) }
td:last-child { text-align: left }
td:first-child { font-family: ui-monospace, monospace; font-size: 12px }
)";

std::string tile(const std::string& number, std::string_view unit, std::string_view what) {
  return number.empty() ? std::string() : html_tile(fmt::format("{} {}", number, unit), what);
}

std::string machine_part(const BenchResults& results) {
  const auto fact = [&](const char* key) { return html_escaped(results.fact(key)); };
  std::string text =
      fmt::format("<h1>clora bench</h1>\n<p>{} · {} · driver {}</p>\n<p>{} · commit {} · {}</p>\n",
                  fact("device"), fact("platform"), fact("driver"), fact("cpu_model"),
                  fact("commit"), fact("date"));
  text += "<div class=\"tiles\">\n";
  text += tile(results.fact("peak_copy_gbps"), "GB/s", "copied");
  text += tile(results.fact("peak_read_gbps"), "GB/s", "read");
  text += tile(results.fact("peak_fma_gflops"), "GFLOP/s", "f32");
  text += tile(results.fact("peak_matrix_gflops"), "GFLOP/s", "matrix unit");
  text += tile(results.fact("peak_launch_us"), "us", "per launch in a batch");
  text += tile(results.fact("peak_wake_us"), "us", "to wake the device");
  return text + "</div>\n";
}

// The link fragment of an op.
std::string anchor(std::string_view op) { return "op-" + html_escaped(op); }

// Splits the rows into one span per op. The rows of an op are contiguous.
std::vector<std::span<const BenchRow>> by_op(const BenchResults& results) {
  std::vector<std::span<const BenchRow>> ops;
  for (const BenchRow& row : results.rows) {
    if (ops.empty() || ops.back().front().op != row.op) {
      ops.emplace_back(&row, 1);
    } else {
      ops.back() = {ops.back().data(), ops.back().size() + 1};
    }
  }
  return ops;
}

std::string contents(const std::vector<std::span<const BenchRow>>& ops) {
  std::string text = "<nav>";
  for (const auto& rows : ops) {
    text += fmt::format("<a href=\"#{}\">{}</a> ", anchor(rows.front().op),
                        html_escaped(rows.front().op));
  }
  return text +
         "</nav>\n<p class=\"key\"><i class=\"fused\"></i>fused<i class=\"unfused\"></i>unfused "
         "ops<i class=\"library\"></i>another library</p>\n<p>Bars show the share of the device's "
         "roofline, from the op's bytes and flops; more than 100 % means that data came from "
         "caches, as in rows named warm. Whiskers show the fastest and slowest repetition. Where "
         "no share is known, bars show times.</p>\n";
}

const Comparison* find(const std::vector<Comparison>& comparisons, const std::string& name) {
  const auto found = std::ranges::find(comparisons, name, &Comparison::name);
  return found == comparisons.end() ? nullptr : &*found;
}

std::string number_or_dash(double value) { return value > 0 ? three_digits(value) : "–"; }

std::string table_of(std::span<const BenchRow> rows, const std::vector<Comparison>& comparisons) {
  std::string text =
      "<details><summary>All figures</summary><div class=\"scroll\"><table>\n<tr><th>name</th>"
      "<th>median</th><th>best</th><th>spread</th><th>repetitions</th><th>GFLOP/s</th>"
      "<th>GB/s</th><th>of roofline</th><th></th></tr>\n";
  for (const BenchRow& row : rows) {
    const Comparison* comparison = find(comparisons, row.name);
    const std::string words = !row.error.empty()      ? row.error
                              : comparison != nullptr ? verdict_text(*comparison)
                                                      : row.note;
    const std::string share = row.percent_of_roofline > 0
                                  ? fmt::format("{:.1f} %", row.typical(row.percent_of_roofline))
                                  : "–";
    text += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.1f} %</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td><td>{}</td></tr>\n",
        html_escaped(row.name), readable_time(row.typical_us()), readable_time(row.best_us),
        100 * row.spread(), row.samples.size(), number_or_dash(row.typical(row.gflops)),
        number_or_dash(row.typical(row.gbps)), share, html_escaped(words));
  }
  return text + "</table></div></details>\n";
}

std::string comparison_part(const BenchPage& page) {
  if (page.comparisons.empty()) return {};
  const auto count = [&](Verdict verdict) {
    return std::ranges::count(page.comparisons, verdict, &Comparison::verdict);
  };
  std::string text = fmt::format(
      "<h2>Compared with the earlier run</h2>\n<p>{} faster, {} slower, {} no difference, {} with "
      "too few repetitions, by {:.0f} % confidence intervals.</p>\n",
      count(Verdict::faster), count(Verdict::slower), count(Verdict::no_difference),
      count(Verdict::too_few), 100 * kConfidence);
  for (const std::string& note : page.machine_notes) {
    text += fmt::format("<p class=\"warning\">{}</p>\n", html_escaped(note));
  }
  const bool has_chart = count(Verdict::faster) + count(Verdict::slower) > 0;
  return has_chart ? text + comparison_chart(page.comparisons) : text;
}

std::string gains_part(const BenchResults& results) {
  const std::vector<FusedGain> gains = fused_gains(results);
  if (gains.empty()) return {};
  return "<h2>Gain from fusion</h2>\n<p>Time of the same work in unfused ops, as a multiple of the "
         "fused op's time.</p>\n" +
         gains_chart(gains);
}

}  // namespace

std::string bench_page(const BenchPage& page) {
  const auto ops = by_op(page.results);
  std::string text = html_page_head("clora bench", kStyle) + machine_part(page.results) +
                     comparison_part(page) + contents(ops) + gains_part(page.results);
  for (const auto& rows : ops) {
    text += fmt::format("<h2 id=\"{}\">{}</h2>\n", anchor(rows.front().op),
                        html_escaped(rows.front().op));
    text += rows_chart(rows) + table_of(rows, page.comparisons);
  }
  return text + "</body>\n</html>\n";
}

}  // namespace clora
