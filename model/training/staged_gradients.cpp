#include "model/training/staged_gradients.hpp"

#include <chrono>
#include <utility>

#include "model/training/stage_schedule.hpp"
#include "runtime/elapsed.hpp"

namespace clora {
namespace {

std::int64_t rows_of(const PackedRows& packed) { return static_cast<std::int64_t>(packed.rows()); }

}  // namespace

StagedGradients::StagedGradients(const LanguageModel& model, RecordedSteps& steps,
                                 Communicator& ranks)
    : model_(model),
      steps_(steps),
      streams_(model.context(), ranks),
      stage_(static_cast<std::size_t>(ranks.rank())),
      stages_(static_cast<std::size_t>(ranks.size())),
      slots_(stage_slots(stage_, stages_)),
      in_flight_(slots_) {}

void StagedGradients::prepare(const WantedRows& wanted) {
  for (std::size_t slot = 0; slot < slots_; ++slot) steps_.prepare(wanted, slot);
}

void StagedGradients::forward(const Work& work, std::size_t i) {
  const PackedRows& packed = work.micro_batches[i];
  RecordedStep& step = steps_.upload(packed, work.scalars(i), work.staging[i], slot_of(i));
  in_flight_[slot_of(i)] = &step;
  const int rank = static_cast<int>(stage_);
  if (!model_.is_first()) streams_.receive(rank - 1, step.stream_in(), rows_of(packed), end_);
  end_ = step.batch().submit();  // until the pause
  streams_.flush();
  if (!model_.is_last()) streams_.send(rank + 1, step.stream_out(), rows_of(packed));
}

void StagedGradients::backward(const Work& work, std::size_t i) {
  const std::int64_t rows = rows_of(work.micro_batches[i]);
  RecordedStep& step = *in_flight_[slot_of(i)];
  const int rank = static_cast<int>(stage_);
  if (!model_.is_last()) streams_.receive(rank + 1, step.stream_out(), rows, end_);
  end_ = step.batch().submit();
  work.after_backward(i);
  streams_.flush();
  if (!model_.is_first()) streams_.send(rank - 1, step.stream_in(), rows);
}

void StagedGradients::run(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  const double waited_before = streams_.waited_seconds();
  end_ = {};
  for (const StageTask& task : stage_schedule(stage_, stages_, work.micro_batches.size())) {
    if (task.kind == StageTask::forward) {
      forward(work, task.micro_batch);
    } else {
      backward(work, task.micro_batch);
    }
  }
  streams_.flush();
  end_.wait();
  if (std::exchange(is_first_run_, false)) return;
  seconds_.total += seconds_since(begin);
  seconds_.waited += streams_.waited_seconds() - waited_before;
}

}  // namespace clora
