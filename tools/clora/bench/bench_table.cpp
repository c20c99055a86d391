#include "tools/clora/bench/bench_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr int kBarCells = 10;

std::string number_or_blank(double value) { return value > 0 ? three_digits(value) : ""; }

const Comparison* find(const std::vector<Comparison>& comparisons, const std::string& name) {
  const auto found = std::ranges::find(comparisons, name, &Comparison::name);
  return found == comparisons.end() ? nullptr : &*found;
}

std::string share_text(double percent) {
  if (percent <= 0) return std::string(kBarCells + 6, ' ');
  return fmt::format("{} {:>4.0f}%", bar(percent, kBarCells), percent);
}

std::string line_of(const BenchRow& row, const Comparison* comparison, std::size_t width) {
  std::string line = fmt::format("  {:<{}}", row.rest, width);
  if (!row.error.empty()) return line + "  " + row.error;
  const std::string spread =
      row.samples.size() > 1 ? fmt::format("±{:.0f}%", 100 * row.spread()) : "";
  line +=
      fmt::format(" {:>9} {:>5} {:>8} {:>7}  {}", readable_time(row.typical_us()), spread,
                  number_or_blank(row.typical(row.gflops)), number_or_blank(row.typical(row.gbps)),
                  share_text(row.typical(row.percent_of_roofline)));
  if (!row.note.empty()) line += "  " + row.note;
  if (comparison != nullptr) line += "  " + verdict_text(*comparison);
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

std::string bar(double percent, int cells) {
  constexpr std::array<std::string_view, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double share = std::clamp(percent / 100, 0.0, 1.0);
  const auto eighths = static_cast<std::size_t>(std::lround(share * cells * 8));
  std::string text;
  for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  const std::size_t used = divide_up(eighths, 8);
  return text + std::string(static_cast<std::size_t>(cells) - used, ' ');
}

std::string bench_machine_text(const BenchResults& results) {
  std::string text = fmt::format("{}, {}, driver {}\nclora {}, {}\n", results.fact("device"),
                                 results.fact("platform"), results.fact("driver"),
                                 results.fact("commit"), results.fact("date"));
  if (results.number("peak_fma_gflops") <= 0) return text;
  const std::string matrix =
      results.number("peak_matrix_gflops") > 0
          ? fmt::format(" ({} on the matrix unit)", results.fact("peak_matrix_gflops"))
          : "";
  return text + fmt::format(
                    "peaks: {} GB/s copied, {} read, {} GFLOP/s f32{}, {} us per launch, {} us to "
                    "wake the device\n",
                    results.fact("peak_copy_gbps"), results.fact("peak_read_gbps"),
                    results.fact("peak_fma_gflops"), matrix, results.fact("peak_launch_us"),
                    results.fact("peak_wake_us"));
}

std::string bench_table(const BenchResults& results, const std::vector<Comparison>& comparisons) {
  std::size_t width = 0;
  for (const BenchRow& row : results.rows) width = std::max(width, row.rest.size());
  std::string text = fmt::format("  {:<{}} {:>9} {:>5} {:>8} {:>7}  {}\n", "", width, "time", "",
                                 "GFLOP/s", "GB/s", "of roofline");
  std::string op;
  for (const BenchRow& row : results.rows) {
    if (row.op != op) text += row.op + '\n';
    op = row.op;
    text += line_of(row, find(comparisons, row.name), width) + '\n';
  }
  return text;
}

}  // namespace clora
