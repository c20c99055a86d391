// Profiler::table(): the profile as text.
#include <fmt/format.h>

#include <algorithm>

#include "clora/runtime/profiling/profiler.hpp"

namespace clora {
namespace {

constexpr std::size_t kPairsShown = 5;
constexpr std::size_t kNarrowName = 28, kWidestName = 80;

std::string name_of(const OpTime& row) {
  return row.shape.empty() ? row.op : row.op + " " + row.shape;
}

std::size_t name_width(const std::vector<OpTime>& rows) {
  std::size_t width = kNarrowName;
  for (const OpTime& row : rows) width = std::max(width, name_of(row).size());
  return std::min(width, kWidestName);
}

// Empty if the op declares no cost, instead of a rate of zero.
std::string rate(double amount, double seconds) {
  return amount > 0 && seconds > 0 ? fmt::format("{:.1f}", amount / seconds * 1e-9) : "";
}

std::string line_of(const OpTime& row, double total, std::size_t width) {
  const double mean = row.seconds / static_cast<double>(row.count);
  const std::string roofline =
      row.roofline_seconds > 0 ? fmt::format("{:.1f}%", 100 * row.share_of_roofline()) : "";
  return fmt::format("{:<{}} {:>8} {:>11.2f} {:>10.1f} {:>6.1f}% {:>9.2f} {:>8} {:>9} {:>9}\n",
                     name_of(row), width, row.count, row.seconds * 1e3, mean * 1e6,
                     total > 0 ? 100 * row.seconds / total : 0, row.gap_seconds * 1e3,
                     rate(row.cost.bytes, row.seconds), rate(row.cost.flops, row.seconds),
                     roofline);
}

std::string text_of(const GapSummary& gaps) {
  const double mean = gaps.count > 0 ? gaps.seconds / static_cast<double>(gaps.count) : 0;
  const double share = gaps.wall_seconds > 0 ? 100 * gaps.seconds / gaps.wall_seconds : 0;
  std::string text = fmt::format(
      "gaps between commands: {}, {:.2f} ms in total ({:.1f}% of {:.2f} ms), mean {:.1f} us\n",
      gaps.count, gaps.seconds * 1e3, share, gaps.wall_seconds * 1e3, mean * 1e6);
  for (std::size_t i = 0; i < std::min(kPairsShown, gaps.pairs.size()); ++i) {
    const GapTime& pair = gaps.pairs[i];
    text +=
        fmt::format("  {:>10.2f} ms in {} from {} to {}, longest {:.1f} us\n", pair.seconds * 1e3,
                    pair.count, pair.after, pair.before, pair.longest_seconds * 1e6);
  }
  return text;
}

}  // namespace

std::string peaks_text(const RooflinePeaks& peaks) {
  const std::string matrix =
      peaks.matrix_flops_per_second > 0
          ? fmt::format(" ({:.1f} with the matrix unit)", peaks.matrix_flops_per_second * 1e-9)
          : "";
  return fmt::format(
      "{:.1f} GB/s copied, {:.1f} GB/s read, {:.1f} GFLOP/s f32{}, {:.3f} us per barrier, {:.2f} "
      "us per launch, {:.1f} us to wake the device",
      peaks.copy_bytes_per_second * 1e-9, peaks.read_bytes_per_second * 1e-9,
      peaks.f32_flops_per_second * 1e-9, matrix, peaks.barrier_seconds * 1e6,
      peaks.launch_seconds * 1e6, peaks.wake_seconds * 1e6);
}

std::string Profiler::table(ProfileBy by, const RooflinePeaks& peaks) {
  const std::vector<OpTime> rows = times(by, peaks);
  double total = 0;
  for (const OpTime& row : rows) total += row.seconds;
  const std::size_t width = name_width(rows);
  std::string text = fmt::format("{:<{}} {:>8} {:>11} {:>10} {:>7} {:>9} {:>8} {:>9} {:>9}\n", "op",
                                 width, "count", "total ms", "mean us", "share", "gap ms", "GB/s",
                                 "GFLOP/s", peaks.known() ? "roofline" : "");
  for (const OpTime& row : rows) text += line_of(row, total, width);
  text += text_of(gaps());
  if (peaks.known()) text += fmt::format("peaks: {}\n", peaks_text(peaks));
  if (untimed_ > 0) text += fmt::format("{} commands reported no times\n", untimed_);
  return text;
}

}  // namespace clora
