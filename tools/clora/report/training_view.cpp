#include "tools/clora/report/training_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/command_line/output.hpp"
#include "tools/command_line/printable.hpp"

namespace clora {
namespace {

constexpr const char* kBold = "1";
constexpr const char* kDim = "2";
constexpr const char* kBlue = "34";
constexpr const char* kPlain = "";

// All characters of the view take one column, so the width is the number of UTF-8 sequences.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

// A line under construction: a part that does not fit is omitted, and so is all after it.
class Line {
 public:
  Line(std::size_t columns, bool colour) : columns_(columns), colour_(colour) {}

  Line& add(std::string_view style, const std::string& given) {
    const std::string text = printable(given);
    const std::size_t width = width_of(text);
    is_full_ = is_full_ || line_.width + width >= columns_;
    if (is_full_) return *this;
    const bool styled = colour_ && !style.empty();
    line_.text += styled ? fmt::format("\x1b[{}m{}\x1b[0m", style, text) : text;
    line_.width += width;
    return *this;
  }
  std::size_t left() const { return is_full_ ? 0 : columns_ - 1 - line_.width; }
  const TerminalLine& line() const { return line_; }

 private:
  std::size_t columns_;
  bool colour_;
  bool is_full_ = false;
  TerminalLine line_;
};

std::string repeated(std::string_view text, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

double last_of(const SeriesPoints& points) { return points.empty() ? NAN : points.back().value; }

TerminalLine progress_line(const RunRecord& record, const TrainingView& view) {
  constexpr std::size_t kLongest = 40, kShortest = 8;
  Line line(view.size.columns, view.colour);
  const std::int64_t total = std::max<std::int64_t>(view.total_steps, 1);
  const double share =
      std::clamp(static_cast<double>(record.last_step()) / static_cast<double>(total), 0.0, 1.0);
  line.add(kDim, "step ").add(kBold, grouped(record.last_step()));
  line.add(kDim, fmt::format(" of {} ", grouped(total)));
  const std::string times =
      fmt::format("  {}  {} left", clock_time(view.seconds), clock_time(view.seconds_left));
  const std::string percent = fmt::format(" {:.0f} %", std::floor(100 * share));
  const std::size_t beside = times.size() + percent.size();
  if (line.left() >= beside + kShortest) {
    const std::size_t width = std::min(line.left() - beside, kLongest);
    const auto full = static_cast<std::size_t>(share * static_cast<double>(width));
    line.add(kBlue, repeated("━", full)).add(kDim, repeated("─", width - full));
  }
  return line.add(kPlain, percent).add(kPlain, times).line();
}

TerminalLine loss_line(const RunRecord& record, const TrainingView& view) {
  constexpr std::size_t kLongest = 60, kShortest = 4;
  Line line(view.size.columns, view.colour);
  const SeriesPoints& losses = record.points("step", "loss");
  line.add(kDim, "loss ").add(kBold, fmt::format("{:.4f}", last_of(losses)));
  if (losses.empty()) return line.line();
  const std::string first = fmt::format("  from {:.4f}", losses.front().value);
  const std::size_t room = line.left();
  if (room >= kShortest + 2) {
    const bool fits_both = room >= kShortest + 2 + first.size();
    const std::size_t width = room - 2 - (fits_both ? first.size() : 0);
    line.add(kPlain, "  ").add(kBlue, block_curve(losses, std::min(width, kLongest)));
  }
  return line.add(kDim, first).line();
}

TerminalLine held_out_line(const SeriesPoints& losses, const TrainingView& view) {
  Line line(view.size.columns, view.colour);
  const SeriesPoint& best = *lowest(losses);
  line.add(kDim, "held out ").add(kBold, fmt::format("{:.4f}", losses.back().value));
  line.add(kDim, fmt::format(" at step {}", grouped(losses.back().step)));
  if (best.step != losses.back().step) {
    line.add(kPlain, fmt::format(", lowest {:.4f} at step {}", best.value, grouped(best.step)));
  }
  return line.line();
}

// Numbers of steps that a training has beyond the usual, with their last values.
void add_further(Line& line, const RunRecord& record) {
  constexpr std::array<std::string_view, 7> kShown{
      "loss", "tokens", "learning_rate", "grad_norm", "tokens_per_s", "in_use_bytes", "peak_bytes"};
  for (const Series& series : record.series()) {
    if (!series.is_of_steps() || std::ranges::find(kShown, series.group) != kShown.end()) continue;
    std::string name = series.group + (series.name.empty() ? "" : "/" + series.name);
    std::ranges::replace(name, '_', ' ');
    line.add(kPlain, fmt::format("  {} {}", name, short_number(series.points.back().value)));
  }
}

TerminalLine figures_line(const RunRecord& record, const TrainingView& view) {
  Line line(view.size.columns, view.colour);
  const auto last = [&](const char* field) { return last_of(record.points("step", field)); };
  line.add(kDim, "rate ").add(kPlain, fmt::format("{:.3g}", last("learning_rate")));
  line.add(kPlain, fmt::format("  {:.0f} tokens/s", last("tokens_per_s")));
  line.add(kPlain, "  " + readable_bytes(last("in_use_bytes")));
  line.add(kPlain, fmt::format("  gradient norm {:.3g}", last("grad_norm")));
  add_further(line, record);
  return line.line();
}

}  // namespace

std::string block_curve(const SeriesPoints& points, std::size_t width) {
  constexpr std::array<std::string_view, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  width = std::min(width, points.size());
  std::vector<double> means;
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t begin = i * points.size() / width, end = (i + 1) * points.size() / width;
    double sum = 0;
    for (std::size_t j = begin; j < end; ++j) sum += points[j].value;
    means.push_back(sum / static_cast<double>(end - begin));
  }
  if (means.empty()) return {};
  const auto [low, high] = std::ranges::minmax(means);
  std::string text;
  for (const double mean : means) {
    const double height = high > low ? (mean - low) / (high - low) : 0;
    text += kBlocks[static_cast<std::size_t>(std::lround(7 * height))];
  }
  return text;
}

std::vector<TerminalLine> training_view(const RunRecord& record, const TrainingView& view) {
  std::vector<TerminalLine> lines{progress_line(record, view), loss_line(record, view)};
  const SeriesPoints& held_out = record.points("eval", "loss");
  if (!held_out.empty()) lines.push_back(held_out_line(held_out, view));
  lines.push_back(figures_line(record, view));
  const std::size_t rows = std::max<std::size_t>(view.size.rows, 2) - 1;
  if (lines.size() > rows) lines.resize(rows);
  return lines;
}

}  // namespace clora
