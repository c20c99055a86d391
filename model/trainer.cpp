#include "model/trainer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/recorded_step.hpp"
#include "ops/adamw.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

// A step whose result has not been read yet, with the host memory that its transfers use.
struct InFlight {
  StepResult result;
  std::vector<std::vector<std::int32_t>> staging;
  AdamwSettings settings;
  std::array<float, 2> loss_and_norm{};
  Fence fence;
};

}  // namespace

struct Trainer::Impl {
  Impl(LanguageModel& language_model, Adapter& trained, const TrainerConfig& settings)
      : adapter(trained),
        config(settings),
        context(language_model.context()),
        zero(context),
        update(context) {
    adapter.allocate_gradients();
    const auto step = static_cast<std::int64_t>(context.device().base_alignment_bytes / 4);
    results = context.allocate({2 * step}, DType::f32, MemoryTag::adapters);
    recorded = std::make_unique<RecordedSteps>(language_model, &adapter, StepKind::train,
                                               loss_sum(), arena);
    adamw_settings = context.allocate({8}, DType::f32, MemoryTag::adapters);
    first_moment = zeros();
    second_moment = zeros();
    zero.fill_zero(adapter.flat_gradients());
    zero.fill_zero(loss_sum());
    record_adamw(update,
                 {.parameters = adapter.parameters(),
                  .first_moment = first_moment,
                  .second_moment = second_moment,
                  .gradients = adapter.flat_gradients(),
                  .settings = adamw_settings},
                 grad_norm());
  }

  Tensor zeros() const {
    const std::vector<float> values(static_cast<std::size_t>(adapter.parameters().elements()));
    return context.upload<float>(adapter.parameters().shape(), DType::f32, values,
                                 MemoryTag::adapters);
  }
  Tensor loss_sum() const { return results.slice(0, {1}, DType::f32); }
  Tensor grad_norm() const { return results.slice(results.bytes() / 2, {1}, DType::f32); }

  AdamwSettings settings_of(std::int64_t step, double learning_rate) const;
  std::optional<StepResult> finish(std::unique_ptr<InFlight> flight);

  Adapter& adapter;
  TrainerConfig config;
  Context& context;
  std::shared_ptr<Arena> arena = std::make_shared<Arena>();
  std::unique_ptr<RecordedSteps> recorded;
  Batch zero, update;
  Tensor results, adamw_settings, first_moment, second_moment;
  std::unique_ptr<InFlight> in_flight;
  std::int64_t steps = 0;
};

AdamwSettings Trainer::Impl::settings_of(std::int64_t step, double learning_rate) const {
  const auto correction = [&](double beta) {
    return static_cast<float>(1 - std::pow(beta, static_cast<double>(step)));
  };
  return {.learning_rate = static_cast<float>(learning_rate),
          .beta1 = static_cast<float>(config.beta1),
          .beta2 = static_cast<float>(config.beta2),
          .epsilon = static_cast<float>(config.epsilon),
          .weight_decay = static_cast<float>(config.weight_decay),
          .clip_norm = static_cast<float>(config.clip_norm),
          .bias_correction1 = correction(config.beta1),
          .bias_correction2 = correction(config.beta2)};
}

std::optional<StepResult> Trainer::Impl::finish(std::unique_ptr<InFlight> flight) {
  if (flight == nullptr) return std::nullopt;
  flight->fence.wait();
  const double tokens = std::max(1.0, static_cast<double>(flight->result.tokens));
  flight->result.loss = static_cast<double>(flight->loss_and_norm[0]) / tokens;
  flight->result.grad_norm = static_cast<double>(flight->loss_and_norm[1]);
  return flight->result;
}

Trainer::Trainer(LanguageModel& model, Adapter& adapter, const TrainerConfig& config)
    : impl_(std::make_unique<Impl>(model, adapter, config)) {}

Trainer::~Trainer() {
  try {
    impl_->context.finish();  // transfers in flight use the Impl's memory
  } catch (...) {             // a destructor reports nothing; the next call on the context will
  }
}

std::optional<StepResult> Trainer::step(std::span<const PackedRows> micro_batches,
                                        double learning_rate) {
  Impl& impl = *impl_;
  require(!micro_batches.empty(), "trainer: a step needs at least one batch of rows");
  auto flight = std::make_unique<InFlight>();
  StepResult& result = flight->result;
  for (const PackedRows& packed : micro_batches) {
    result.tokens += packed.target_count;
    result.rows += static_cast<std::int64_t>(packed.rows());
  }
  require(result.tokens > 0, "trainer: a step needs at least one token that counts");
  result.step = ++impl.steps;
  result.learning_rate = learning_rate;
  flight->staging.resize(micro_batches.size());

  impl.zero.submit();
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    // Each micro-batch draws its own dropout masks.
    const auto draw = static_cast<std::uint32_t>(
        static_cast<std::size_t>(result.step) * micro_batches.size() + i);
    impl.recorded->submit(micro_batches[i],
                          {.weight = 1.0F / static_cast<float>(result.tokens),
                           .seed = impl.config.dropout_seed,
                           .step = draw},
                          flight->staging[i]);
  }
  flight->settings = impl.settings_of(result.step, learning_rate);
  impl.context.write_async(impl.adamw_settings, std::as_bytes(std::span(&flight->settings, 1)));
  impl.update.submit();
  impl.context.read_async(impl.loss_sum(),
                          std::as_writable_bytes(std::span(flight->loss_and_norm).first(1)));
  flight->fence = impl.context.read_async(
      impl.grad_norm(), std::as_writable_bytes(std::span(flight->loss_and_norm).last(1)));
  impl.context.flush();
  return impl.finish(std::exchange(impl.in_flight, std::move(flight)));
}

void Trainer::prepare(std::size_t rows, std::size_t counted) {
  impl_->recorded->prepare(rows, counted);
}

std::optional<StepResult> Trainer::drain() {
  return impl_->finish(std::exchange(impl_->in_flight, nullptr));
}

std::shared_ptr<Arena> Trainer::arena() const noexcept { return impl_->arena; }

std::int64_t Trainer::steps() const noexcept { return impl_->steps; }

Trainer::State Trainer::state() {
  return {.step = impl_->steps,
          .first_moment = impl_->context.read<float>(impl_->first_moment),
          .second_moment = impl_->context.read<float>(impl_->second_moment)};
}

void Trainer::restore(const State& state) {
  const auto count = static_cast<std::size_t>(impl_->first_moment.elements());
  require(state.first_moment.size() == count && state.second_moment.size() == count,
          "trainer: the state to restore must hold {} moments, got {} and {}", count,
          state.first_moment.size(), state.second_moment.size());
  impl_->context.write(impl_->first_moment, std::as_bytes(std::span(state.first_moment)));
  impl_->context.write(impl_->second_moment, std::as_bytes(std::span(state.second_moment)));
  impl_->steps = state.step;
}

}  // namespace clora
