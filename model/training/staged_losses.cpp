#include "model/training/staged_losses.hpp"

#include "model/training/stage_streams.hpp"
#include "runtime/memory/host_hold.hpp"

namespace clora {
namespace {

void write_zero(Context& context, const Tensor& value) {
  const float zero = 0;
  context.write(value, std::as_bytes(std::span(&zero, 1)));
}

}  // namespace

// The sums are in f32, as the device adds them up.
std::vector<double> staged_loss_sums(const LanguageModel& model, RecordedSteps& steps,
                                     const Tensor& loss, std::span<const PackedRows> rows,
                                     Communicator& ranks) {
  Context& context = model.context();
  HostHold<std::vector<std::vector<std::int32_t>>> staging(context, rows.size());
  StageStreams streams(context, ranks);
  std::vector<float> sums(rows.size());
  Fence end;
  steps.update_scales();  // the adapter may have been trained since
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (model.is_last()) write_zero(context, loss);
    const auto count = static_cast<std::int64_t>(rows[i].rows());
    RecordedStep& step = steps.upload(rows[i], {}, (*staging)[i]);
    if (!model.is_first()) streams.receive(ranks.rank() - 1, step.stream_in(), count, end);
    end = step.batch().submit();
    streams.flush();
    if (!model.is_last()) streams.send(ranks.rank() + 1, step.stream_out(), count);
    if (model.is_last()) sums[i] = context.read<float>(loss).front();
  }
  streams.flush();
  end.wait();
  staging.mark_idle();
  ranks.sum(sums);
  return {sums.begin(), sums.end()};
}

}  // namespace clora
