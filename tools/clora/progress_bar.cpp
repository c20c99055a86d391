#include "tools/clora/progress_bar.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/elapsed.hpp"
#include "tools/command_line/printable.hpp"
#include "tools/command_line/terminal_block.hpp"
#include "tools/command_line/terminal_line.hpp"

namespace clora {
namespace {

constexpr std::int64_t kPlainLines = 20;
constexpr double kPlainSeconds = 10;
constexpr double kRedrawSeconds = 0.1;

std::string bar_of(std::int64_t done, std::int64_t total, std::size_t width) {
  const auto full = static_cast<std::size_t>(done * static_cast<std::int64_t>(width) / total);
  std::string bar(std::min(full, width), '=');
  if (bar.size() < width) bar += '>';
  bar.resize(width, ' ');
  return bar;
}

void put(std::FILE* stream, const std::string& text) {
  clear_terminal_line();
  std::fputs(text.c_str(), stream);
  std::fflush(stream);
}

}  // namespace

ProgressBar::ProgressBar(Output& output, std::string_view unit, std::int64_t total,
                         std::int64_t done)
    : output_(output),
      unit_(unit),
      total_(std::max<std::int64_t>(total, 1)),
      begin_(done),
      last_line_(done),
      terminal_(terminal_for(output)) {}

double ProgressBar::seconds_left(std::int64_t done) const {
  const auto completed = static_cast<double>(std::max<std::int64_t>(done - begin_, 1));
  return seconds_since(started_) / completed *
         static_cast<double>(std::max<std::int64_t>(total_ - done, 0));
}

bool ProgressBar::line_is_due(std::int64_t done) const {
  if (done >= total_ || last_line_ == begin_) return true;
  return (done - last_line_) * kPlainLines >= total_ - begin_ ||
         seconds_since(last_drawn_) >= kPlainSeconds;
}

void ProgressBar::update(std::int64_t done, std::string_view figures) {
  if (output_.quiet()) return;
  const std::string left = clock_time(seconds_left(done));
  if (terminal_ != nullptr) {
    if (done < total_ && drawn_ && seconds_since(last_drawn_) < kRedrawSeconds) return;
    draw(done, figures, left);
  } else {
    if (!line_is_due(done)) return;
    output_.info("{} {}/{}  {}  {} left", unit_, done, total_, figures, left);
    last_line_ = done;
  }
  last_drawn_ = Clock::now();
}

void ProgressBar::draw(std::int64_t done, std::string_view figures, std::string_view left) {
  const std::string counts = fmt::format("{}/{}", done, total_);
  const std::string tail = fmt::format("  {}  {} left", figures, left);
  const std::size_t columns = terminal_size(terminal_).columns;
  const std::size_t used = counts.size() + tail.size() + 5;
  const std::size_t width = columns > used + 8 ? std::min<std::size_t>(columns - used, 30) : 8;
  std::string text = fmt::format("{} [{}]{}", counts, bar_of(done, total_, width), tail);
  if (text.size() >= columns) text.resize(columns - 1);
  put(terminal_, "\r\x1b[K" + printable(text));
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) put(terminal_, "\r\x1b[K");
  drawn_ = false;
}

}  // namespace clora
