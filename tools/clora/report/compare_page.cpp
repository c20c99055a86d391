// compare_page() of run_comparison.hpp.
#include <fmt/format.h>

#include "tools/clora/report/html_page.hpp"
#include "tools/clora/report/run_charts.hpp"
#include "tools/clora/report/run_comparison.hpp"
#include "tools/command_line/markup.hpp"

namespace clora {
namespace {

std::string row_of(const std::vector<std::string>& cells, const char* element,
                   std::string_view mark = {}) {
  std::string text = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    text += fmt::format("<{0}>{1}{2}</{0}>", element, i == 0 ? mark : std::string_view(),
                        html_escaped(cells[i]));
  }
  return text + "</tr>\n";
}

std::string mark_of(std::size_t run) {
  return fmt::format("<span class=\"legend\"><i class=\"s{}\"></i></span>", run % kChartColours);
}

std::string results_part(const std::vector<LoggedRun>& runs) {
  const TextTable table = results_table(runs);
  std::string text = row_of(table.head, "th");
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    text += row_of(table.rows[i], "td", mark_of(i));
  }
  return "<div class=\"scroll\"><table class=\"results\">\n" + text +
         "</table></div>\n<p>loss: training, the mean of the last tenth of the steps; held out: "
         "the "
         "last evaluation; lowest: of all evaluations; in nats per token. tokens/s: the median of "
         "the steps. A dash: not in the log.</p>\n";
}

std::string settings_part(const std::vector<LoggedRun>& runs) {
  const TextTable table = settings_table(runs);
  if (table.rows.empty()) return "<p>The settings of the runs are the same.</p>\n";
  std::string text = row_of(table.head, "th");
  for (const auto& row : table.rows) text += row_of(row, "td");
  return "<div class=\"scroll\"><table class=\"plain\">\n" + text + "</table></div>\n";
}

std::string curves_part(const std::vector<LoggedRun>& runs) {
  std::vector<const RunRecord*> records;
  std::vector<std::string> names;
  for (const LoggedRun& run : runs) {
    records.push_back(&run.record);
    names.push_back(run.name);
  }
  std::string text;
  for (const LineChart& chart : charts_of(records, names)) text += line_chart(chart);
  return "<div class=\"charts\">\n" + text + "</div>\n";
}

}  // namespace

std::string compare_page(const std::vector<LoggedRun>& runs) {
  return html_chart_page_head("clora compare") + "<h1>Comparison of training runs</h1>\n" +
         results_part(runs) +
         "<h2 id=\"curves\">Curves</h2>\n<p>Faint lines are the values of steps, strong ones their "
         "running mean. Point at a chart, or focus it and press the arrow keys, to read the values "
         "at a step.</p>\n" +
         curves_part(runs) + "<h2 id=\"settings\">Settings that differ</h2>\n" +
         settings_part(runs) + html_chart_page_end();
}

}  // namespace clora
