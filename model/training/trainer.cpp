#include "clora/model/training/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "model/training/device_optimizer.hpp"
#include "model/training/frozen_ranks.hpp"
#include "model/training/gradient_noise.hpp"
#include "model/training/parameter_average.hpp"
#include "model/training/step_gradients.hpp"
#include "model/training/step_sums.hpp"
#include "model/training/trainer_checks.hpp"
#include "model/transformer/finite_check.hpp"
#include "runtime/elapsed.hpp"
#include "runtime/fail.hpp"
#include "runtime/memory/host_hold.hpp"

namespace clora {
namespace {

// A step whose result has not been read yet, and the host memory of its transfers.
struct InFlight {
  StepResult result;
  std::size_t micro_batches = 0;
  double weight = 0, first_weight = 0;  // of the labelled tokens, and of those of the first one
  StepGradients::Staging staging;
  StepSums::Read sums;
  Fence fence;
};

Adapter& with_gradients(Adapter& adapter) {
  adapter.allocate_gradients();
  return adapter;
}

}  // namespace

struct Trainer::Impl {
  Impl(LanguageModel& language_model, Adapter& trained, const TrainerConfig& settings)
      : model(language_model),
        adapter(with_gradients(trained)),
        config(settings),
        context(language_model.context()),
        sums(context, settings.preference.has_value()),
        update_settings(context.allocate({8}, DType::f32, MemoryTag::adapters)),
        gradients(model, adapter, config, sums, update_settings),
        optimizer(context, config.optimizer, adapter.parameter_set()),
        update(context),
        average(update_with_optimizer(), adapter, config.average_decay) {
    update.seal();  // all memory of the trainer but that of its steps is taken by now
  }

  Batch& update_with_optimizer() {
    record_frozen_gradients(update, adapter, config.frozen_ranks);
    optimizer.record(update, update_settings, sums.of(StepSums::grad_norm));
    return update;
  }

  UpdateSettings settings_of(std::int64_t step, double learning_rate) const;
  // Adds what a step's micro-batches have, and checks them.
  void count(std::span<const PackedRows> micro_batches, InFlight& flight) const;
  StepGradients::Work work_of(std::span<const PackedRows> micro_batches,
                              const InFlight& flight) const;
  void enqueue_update(InFlight& flight);
  // With ranks: waits until the gradients of the step in flight are added up, then enqueues its
  // update.
  void finish_exchange();
  std::optional<StepResult> finish(HostHold<InFlight> flight);
  void add_noise(InFlight& flight, double first_square_sum);
  void require_finite(const StepResult& result) const;

  LanguageModel& model;
  Adapter& adapter;
  TrainerConfig config;
  Context& context;
  StepSums sums;
  Tensor update_settings;
  StepGradients gradients;
  DeviceOptimizer optimizer;
  Batch update;
  ParameterAverage average;
  GradientNoise noise;
  HostHold<InFlight> in_flight;
  std::int64_t steps = 0;
  std::int64_t micro_batches_done = 0;  // of all steps
  std::int64_t broken_step = 0;         // the step whose update failed partway; 0: none
};

UpdateSettings Trainer::Impl::settings_of(std::int64_t step, double learning_rate) const {
  UpdateSettings settings = optimizer.settings_of(step);
  settings.learning_rate = static_cast<float>(learning_rate);
  settings.weight_decay = static_cast<float>(config.weight_decay);
  settings.clip_norm = static_cast<float>(config.clip_norm);
  return settings;
}

void Trainer::Impl::count(std::span<const PackedRows> micro_batches, InFlight& flight) const {
  require(!micro_batches.empty(), "trainer: a step needs at least one batch of rows");
  flight.micro_batches = micro_batches.size();
  StepResult& result = flight.result;
  for (const PackedRows& packed : micro_batches) {
    result.tokens += packed.target_count;
    flight.weight += packed.target_weight();
    result.rows += static_cast<std::int64_t>(packed.rows());
    result.nll_rows += packed.answers.nll_rows;
    require(
        !config.preference || !config.preference->has_kl() || packed.answers.mismatched != nullptr,
        "trainer: the KL term of kto needs rows with exchanged answers");
  }
  require(result.tokens > 0, "trainer: a step needs at least one labelled token");
  flight.first_weight = micro_batches.front().target_weight();
  constexpr std::int64_t kMaxDraws = std::numeric_limits<std::uint32_t>::max();
  require(micro_batches_done + std::ssize(micro_batches) <= kMaxDraws,
          "trainer: a run can have at most {} batches of rows, each with its own dropout mask",
          kMaxDraws);
}

StepGradients::Work Trainer::Impl::work_of(std::span<const PackedRows> micro_batches,
                                           const InFlight& flight) const {
  return {.micro_batches = micro_batches,
          .settings = settings_of(flight.result.step, flight.result.learning_rate),
          .weight = flight.weight,
          .nll_rows = flight.result.nll_rows,
          .earlier = micro_batches_done};
}

void Trainer::Impl::finish_exchange() {
  if (!gradients.is_exchanging()) return;
  HostHold<InFlight> flight = std::exchange(in_flight, {});  // has no result if the exchange fails
  broken_step = flight->result.step;
  flight->sums.over_ranks = gradients.finish_exchange();
  enqueue_update(*flight);
  broken_step = 0;
  in_flight = std::move(flight);
}

void Trainer::Impl::enqueue_update(InFlight& flight) {
  update.submit();
  std::vector<float>& read = flight.sums.buffer;
  read.resize(static_cast<std::size_t>(sums.buffer().elements()));
  flight.fence = context.read_async(sums.buffer(), std::as_writable_bytes(std::span(read)));
  context.flush();
}

std::optional<StepResult> Trainer::Impl::finish(HostHold<InFlight> flight) {
  if (!flight) return std::nullopt;
  const TraceSpan span(context.trace(), "wait", "results of the step before");
  flight->fence.wait();
  flight.mark_idle();
  const auto value = [&](StepSums::Value which) { return sums.value_of(flight->sums, which); };
  StepResult& result = flight->result;
  result.balance_loss = value(StepSums::balance_loss) / static_cast<double>(flight->micro_batches);
  const double divisor = config.contrastive ? flight->weight : 1;  // others have weights in the sum
  result.loss = value(StepSums::loss) / divisor + config.router_aux_loss_coef * result.balance_loss;
  if (config.supervised.has_terms()) result.nll = value(StepSums::nll);
  if (config.preference) {
    const PreferenceSums of_pairs = sums.preference_of(flight->sums);
    const PreferenceKind kind = config.preference->formula.kind;
    result.loss += loss_of(of_pairs, kind, result.nll_rows);
    result.preference = scores_of(of_pairs, kind, result.nll_rows);
  }
  result.grad_norm = value(StepSums::grad_norm);
  require_finite(result);
  if (config.gradient_noise && flight->micro_batches > 1)
    add_noise(*flight, value(StepSums::first_square));
  return flight->result;
}

// The gradient of the first micro-batch was computed as its part of the mean over all tokens.
void Trainer::Impl::add_noise(InFlight& flight, double first_square_sum) {
  const double share = flight.first_weight / flight.weight;
  noise.add({first_square_sum / (share * share), flight.first_weight},
            {flight.result.grad_norm * flight.result.grad_norm, flight.weight});
  flight.result.noise_scale = noise.scale();
}

// The adapter is not searched: this update, and possibly the next one, has changed it already.
void Trainer::Impl::require_finite(const StepResult& result) const {
  if (std::isfinite(result.loss) && std::isfinite(result.grad_norm)) return;
  const std::string text = fmt::format("training: step {} gave loss {} and gradient norm {}, which",
                                       result.step, result.loss, result.grad_norm);
  fail_not_finite(text, model, nullptr,
                  "the run diverged; lower `learning_rate` or set `clip_norm`; the last checkpoint "
                  "is unchanged");
}

Trainer::Trainer(LanguageModel& model, Adapter& adapter, const TrainerConfig& config) {
  check_trainable(model, adapter, config);
  impl_ = std::make_unique<Impl>(model, adapter, config);
}

Trainer::~Trainer() = default;

std::optional<StepResult> Trainer::step(std::span<const PackedRows> micro_batches,
                                        double learning_rate) {
  Impl& impl = *impl_;
  const TraceSpan span(impl.context.trace(), "step");
  require(impl.broken_step == 0,
          "trainer: the update of step {} failed midway, so the adapter and the optimizer are "
          "undefined; restore() a saved state and the adapter, or create both again",
          impl.broken_step);
  impl.finish_exchange();
  HostHold<InFlight> flight(impl.context);
  impl.count(micro_batches, *flight);
  flight->result.step = impl.steps + 1;
  flight->result.learning_rate = learning_rate;

  const StepGradients::Work work = impl.work_of(micro_batches, *flight);
  if (impl.gradients.is_exchanged()) impl.broken_step = flight->result.step;
  Fence end = impl.gradients.compute(work, flight->staging);
  impl.broken_step = flight->result.step;
  if (impl.gradients.is_exchanged()) {
    impl.gradients.begin_exchange(work, std::move(end));
  } else {
    impl.enqueue_update(*flight);
  }
  impl.broken_step = 0;
  impl.steps = flight->result.step;
  impl.micro_batches_done += std::ssize(micro_batches);
  return impl.finish(std::exchange(impl.in_flight, std::move(flight)));
}

void Trainer::prepare(const WantedRows& wanted) { impl_->gradients.prepare(wanted); }

double Trainer::roofline_seconds(const WantedRows& wanted, const RooflinePeaks& peaks) {
  return impl_->gradients.roofline_seconds(wanted, peaks) + impl_->update.roofline_seconds(peaks);
}

void Trainer::set_shares(std::vector<std::int64_t> shares) {
  impl_->gradients.set_shares(std::move(shares));
}

double Trainer::gradient_seconds(const PackedRows& micro_batch) {
  Impl& impl = *impl_;
  HostHold<InFlight> flight(impl.context);
  flight->weight = micro_batch.target_count > 0 ? micro_batch.target_weight() : 1;
  const StepGradients::Work work = impl.work_of({&micro_batch, 1}, *flight);
  double seconds = 0;
  for (int turn = 0; turn < 2; ++turn) {  // the first one records the step and builds kernels
    const auto begin = std::chrono::steady_clock::now();
    impl.gradients.compute_alone(work, flight->staging).wait();
    seconds = seconds_since(begin);
  }
  flight.mark_idle();
  return seconds;
}

std::optional<StepResult> Trainer::drain() {
  impl_->finish_exchange();
  return impl_->finish(std::exchange(impl_->in_flight, {}));
}

std::shared_ptr<Arena> Trainer::arena() const noexcept { return impl_->gradients.arena(); }

std::int64_t Trainer::steps() const noexcept { return impl_->steps; }

StageSeconds Trainer::stage_seconds() const noexcept { return impl_->gradients.stage_seconds(); }

Trainer::State Trainer::state() {
  impl_->finish_exchange();
  return {.step = impl_->steps,
          .micro_batches = impl_->micro_batches_done,
          .optimizer = impl_->optimizer.read(),
          .average = impl_->average.exists() ? average() : std::vector<float>()};
}

std::vector<float> Trainer::average() const { return impl_->average.read(); }

void Trainer::restore(const State& state) {
  impl_->average.restore(state.average);
  impl_->optimizer.write(state.optimizer);
  impl_->steps = state.step;
  impl_->micro_batches_done = state.micro_batches;
  impl_->broken_step = 0;
}

}  // namespace clora
