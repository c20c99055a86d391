#include "tools/clora/training/training_progress.hpp"

#include <algorithm>

#include "runtime/elapsed.hpp"

namespace clora {
namespace {

constexpr double kRedrawSeconds = 0.1;

}  // namespace

TrainingProgress::TrainingProgress(Output& output, std::int64_t total, std::int64_t done)
    : quiet_(output.quiet()), total_(total), begin_(done), lines_(output, "step", total, done) {
  if (std::FILE* const terminal = terminal_for(output); terminal != nullptr && !quiet_) {
    view_.emplace(terminal);
  }
}

double TrainingProgress::seconds() const { return seconds_since(started_); }

void TrainingProgress::update(const RunRecord& record, std::string_view figures) {
  if (!view_) return lines_.update(record.last_step(), figures);
  const bool is_last = record.last_step() >= total_;
  if (view_->is_drawn() && !is_last && seconds_since(drawn_) < kRedrawSeconds) return;
  draw(record);
}

void TrainingProgress::draw(const RunRecord& record) {
  const auto done = static_cast<double>(std::max<std::int64_t>(record.last_step() - begin_, 1));
  const auto left = static_cast<double>(std::max<std::int64_t>(total_ - record.last_step(), 0));
  view_->draw(training_view(record, {.total_steps = total_,
                                     .seconds = seconds(),
                                     .seconds_left = seconds() / done * left,
                                     .size = view_->size(),
                                     .colour = wants_colour()}));
  drawn_ = Clock::now();
}

void TrainingProgress::clear() {
  if (view_) view_->clear();
}

void TrainingProgress::leave() {
  if (view_) view_->leave();
}

void TrainingProgress::finish(const RunRecord& record) {
  if (!view_ || record.points("step", "loss").empty()) return;
  draw(record);
  view_->leave();
}

}  // namespace clora
