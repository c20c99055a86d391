#include "clora/model/training/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "clora/model/training/rank_shares.hpp"
#include "clora/model/training/recorded_step.hpp"
#include "model/training/device_optimizer.hpp"
#include "model/training/gradient_exchange.hpp"
#include "model/training/gradient_noise.hpp"
#include "model/training/parameter_average.hpp"
#include "model/training/staged_gradients.hpp"
#include "model/training/step_sums.hpp"
#include "model/training/trainer_checks.hpp"
#include "model/transformer/finite_check.hpp"
#include "ops/optimizers/flat_update.hpp"
#include "runtime/elapsed.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"
#include "runtime/memory/host_hold.hpp"

namespace clora {
namespace {

// A step whose result has not been read yet, and the host memory of its transfers.
struct InFlight {
  StepResult result;
  std::size_t micro_batches = 0;
  double weight = 0, first_weight = 0;  // of the labelled tokens, and of those of the first one
  std::vector<std::vector<std::int32_t>> staging, kl_staging;
  UpdateSettings settings;
  StepSums::Read sums;
  Fence fence;
};

}  // namespace

struct Trainer::Impl {
  Impl(LanguageModel& language_model, Adapter& trained, const TrainerConfig& settings)
      : model(language_model),
        adapter(trained),
        config(settings),
        context(language_model.context()),
        zero(context),
        update(context),
        sums(context, settings.preference.has_value()) {
    adapter.allocate_gradients();
    if (has_kl()) kl = context.allocate({2}, DType::f32, MemoryTag::adapters);
    update_settings = context.allocate({8}, DType::f32, MemoryTag::adapters);
    recorded = std::make_unique<RecordedSteps>(
        language_model, &adapter,
        StepTask{StepKind::train, config.contrastive, config.policy, config.preference,
                 config.ranks != nullptr && model.is_whole(), config.supervised},
        step_results(), arena);
    if (has_kl()) {
      kl_steps = std::make_unique<RecordedSteps>(
          language_model, &adapter,
          StepTask{StepKind::evaluate, std::nullopt, config.policy, config.preference},
          StepResults{.loss_sum = sums.of(StepSums::loss), .kl = kl}, arena);
    }
    if (!model.is_whole()) staged.emplace(model, *recorded, *config.ranks);
    if (config.ranks != nullptr) {
      shares.assign(static_cast<std::size_t>(config.ranks->size()), 1);
      exchange.emplace(context, *config.ranks, adapter.flat_gradients(), sums.exchanged());
    }
    zero.fill_zero(adapter.flat_gradients());
    sums.record_zero(zero);
    if (has_kl()) zero.fill_zero(kl);
    optimizer.emplace(context, config.optimizer, adapter.parameter_set());
    record_frozen(update);
    optimizer->record(update, update_settings, sums.of(StepSums::grad_norm));
    average.emplace(update, adapter, config.average_decay);
    if (config.gradient_noise) {
      first_square.emplace(context);
      record_frozen(*first_square);
      record_square_sum(*first_square, sums.of(StepSums::first_square), adapter.flat_gradients());
      first_square->seal();
    }
    zero.seal();  // all memory of the trainer but that of its steps is taken here
    update.seal();
  }

  bool has_kl() const { return config.preference && config.preference->has_kl(); }
  StepResults step_results() const {
    const auto if_any = [&](bool any, StepSums::Value value) {
      return any ? sums.of(value) : Tensor();
    };
    return {.loss_sum = sums.of(StepSums::loss),
            .settings = update_settings,
            .balance_loss = if_any(config.router_aux_loss_coef > 0, StepSums::balance_loss),
            .nll_sum = if_any(config.supervised.has_terms(), StepSums::nll),
            .preference_sums = sums.of_preference(),
            .kl = kl};
  }

  // Sets the gradients of frozen ranks, the last rows of da and dbt, to 0.
  void record_frozen(Batch& batch) const {
    const std::int64_t frozen = config.frozen_ranks;
    if (frozen == 0) return;
    for (const AdapterModule& module : adapter.modules()) {
      const LoraGradients gradients = adapter.gradients(module.site.path);
      for (const Tensor& rows : {gradients.da, gradients.dbt}) {
        const std::int64_t columns = rows.shape()[1];
        const std::size_t bytes = bytes_of(DType::f32, (module.rank - frozen) * columns);
        batch.fill_zero(rows.slice(bytes, {frozen, columns}, DType::f32));
      }
    }
  }

  UpdateSettings settings_of(std::int64_t step, double learning_rate) const;
  MicroBatchRange own_range(std::size_t count) const;
  // What micro-batch i of the step gets besides its rows.
  RecordedRows::Scalars scalars_of(const InFlight& flight, std::size_t i) const;
  // What the gradients of the range need: sums of 0, the adapter's scales, and the KL term of KTO.
  // Returns a fence after it.
  Fence begin_gradients(std::span<const PackedRows> micro_batches, MicroBatchRange own,
                        InFlight& flight);
  // Waits for the KL sums of all ranks, which then are those of every rank.
  void exchange_kl();
  // After begin_gradients(), whose fence `end` is. Returns a fence after the last one of the range.
  Fence enqueue_gradients(std::span<const PackedRows> micro_batches, MicroBatchRange own,
                          InFlight& flight, Fence end);
  void begin_exchange(std::span<const PackedRows> micro_batches, MicroBatchRange own, Fence end);
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
  std::shared_ptr<Arena> arena = std::make_shared<Arena>();
  std::unique_ptr<RecordedSteps> recorded, kl_steps;
  std::vector<std::int64_t> shares;       // of the ranks
  std::optional<StagedGradients> staged;  // of a stage of a model that is split by layers
  std::optional<GradientExchange> exchange;
  Batch zero, update;
  StepSums sums;
  std::optional<Batch> first_square;  // of the gradients of the step's first micro-batch
  GradientNoise noise;
  Tensor update_settings, kl;
  std::optional<ParameterAverage> average;
  std::optional<DeviceOptimizer> optimizer;
  HostHold<InFlight> in_flight;
  std::int64_t steps = 0;
  std::int64_t micro_batches_done = 0;  // of all steps
  std::int64_t broken_step = 0;         // the step whose update failed partway; 0: none
};

UpdateSettings Trainer::Impl::settings_of(std::int64_t step, double learning_rate) const {
  UpdateSettings settings = optimizer->settings_of(step);
  settings.learning_rate = static_cast<float>(learning_rate);
  settings.weight_decay = static_cast<float>(config.weight_decay);
  settings.clip_norm = static_cast<float>(config.clip_norm);
  return settings;
}

MicroBatchRange Trainer::Impl::own_range(std::size_t count) const {
  if (!exchange || staged) return {0, count};
  return range_of_rank(count, shares, static_cast<std::size_t>(config.ranks->rank()));
}

Fence Trainer::Impl::begin_gradients(std::span<const PackedRows> micro_batches, MicroBatchRange own,
                                     InFlight& flight) {
  Fence end = zero.submit();
  recorded->update_scales();
  if (!kl_steps) return end;
  kl_steps->update_scales();
  flight.kl_staging.resize(micro_batches.size());
  for (std::size_t i = own.begin; i < own.end; ++i) {
    end = kl_steps->submit(*micro_batches[i].answers.mismatched, {}, flight.kl_staging[i]);
  }
  return end;
}

void Trainer::Impl::exchange_kl() {
  if (!exchange || !has_kl()) return;
  std::vector<float> of_kl = context.read<float>(kl);
  config.ranks->sum(of_kl);
  context.write(kl, std::as_bytes(std::span(of_kl)));
}

RecordedRows::Scalars Trainer::Impl::scalars_of(const InFlight& flight, std::size_t i) const {
  const double weight = 1 / flight.weight;
  const double noise_of_one =
      config.supervised.neftune_alpha / std::sqrt(static_cast<double>(model.config().hidden_size));
  const std::int64_t nll_rows = flight.result.nll_rows;
  // A running count, since steps may have different numbers of micro-batches.
  const auto draw =
      static_cast<std::uint32_t>(micro_batches_done + 1) + static_cast<std::uint32_t>(i);
  return {.weight = config.preference ? 1 : weight,
          .seed = config.dropout_seed,
          .step = draw,
          .settings = flight.settings,
          .balance_weight = static_cast<float>(config.router_aux_loss_coef /
                                               static_cast<double>(flight.staging.size())),
          .answer_weight = static_cast<float>(weight),
          .nll_weight = nll_rows > 0 ? 1.0F / static_cast<float>(nll_rows) : 0,
          .noise = static_cast<float>(noise_of_one)};
}

Fence Trainer::Impl::enqueue_gradients(std::span<const PackedRows> micro_batches,
                                       MicroBatchRange own, InFlight& flight, Fence end) {
  flight.settings = settings_of(flight.result.step, flight.result.learning_rate);
  flight.staging.resize(micro_batches.size());
  const auto after = [&](std::size_t i) {
    if (i == 0 && first_square && micro_batches.size() > 1) end = first_square->submit();
  };
  if (staged) {
    staged->run({.micro_batches = micro_batches,
                 .scalars = [&](std::size_t i) { return scalars_of(flight, i); },
                 .staging = flight.staging,
                 .after_backward = after});
    return end;
  }
  for (std::size_t i = own.begin; i < own.end; ++i) {
    end = recorded->submit(micro_batches[i], scalars_of(flight, i), flight.staging[i]);
    after(i);
  }
  if (own.begin < own.end) return end;
  // A rank without a micro-batch updates its adapter all the same.
  return context.write_async(update_settings, std::as_bytes(std::span(&flight.settings, 1)));
}

void Trainer::Impl::begin_exchange(std::span<const PackedRows> micro_batches, MicroBatchRange own,
                                   Fence end) {
  const bool computes = own.begin < own.end;
  if (!exchange->has_parts()) {
    const RecordedStep& step =
        computes ? recorded->latest() : recorded->prepare(wanted_rows(micro_batches.front()));
    // Each stage has gradients of its own blocks: all are exchanged at the end.
    exchange->set_parts(staged ? std::vector<GradientPart>() : step.gradient_parts());
  }
  // first_square reads the gradients of the first micro-batch before they are added to others.
  const bool waits = staged || (first_square && own.begin == 0 && own.end == 1);
  exchange->begin(computes && !waits ? &recorded->latest() : nullptr, std::move(end));
}

void Trainer::Impl::finish_exchange() {
  if (!exchange || !exchange->pending()) return;
  HostHold<InFlight> flight = std::exchange(in_flight, {});  // has no result if the exchange fails
  broken_step = flight->result.step;
  flight->sums.over_ranks = exchange->finish();
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
  if (first_square && flight->micro_batches > 1) add_noise(*flight, value(StepSums::first_square));
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
  require(!micro_batches.empty(), "trainer: a step needs at least one batch of rows");
  require(impl.broken_step == 0,
          "trainer: the update of step {} failed midway, so the adapter and the optimizer are "
          "undefined; restore() a saved state and the adapter, or create both again",
          impl.broken_step);
  impl.finish_exchange();
  HostHold<InFlight> flight(impl.context);
  flight->micro_batches = micro_batches.size();
  StepResult& result = flight->result;
  for (const PackedRows& packed : micro_batches) {
    result.tokens += packed.target_count;
    flight->weight += packed.target_weight();
    result.rows += static_cast<std::int64_t>(packed.rows());
    result.nll_rows += packed.answers.nll_rows;
    require(!impl.has_kl() || packed.answers.mismatched != nullptr,
            "trainer: the KL term of kto needs rows with exchanged answers");
  }
  require(result.tokens > 0, "trainer: a step needs at least one labelled token");
  flight->first_weight = micro_batches.front().target_weight();
  constexpr std::int64_t kMaxDraws = std::numeric_limits<std::uint32_t>::max();
  require(impl.micro_batches_done + std::ssize(micro_batches) <= kMaxDraws,
          "trainer: a run can have at most {} batches of rows, each with its own dropout mask",
          kMaxDraws);
  result.step = impl.steps + 1;
  result.learning_rate = learning_rate;

  const MicroBatchRange own = impl.own_range(micro_batches.size());
  if (impl.exchange) impl.broken_step = result.step;
  Fence begin = impl.begin_gradients(micro_batches, own, *flight);
  impl.exchange_kl();
  Fence gradients = impl.enqueue_gradients(micro_batches, own, *flight, std::move(begin));
  impl.broken_step = result.step;
  if (impl.exchange) {
    impl.begin_exchange(micro_batches, own, std::move(gradients));
  } else {
    impl.enqueue_update(*flight);
  }
  impl.broken_step = 0;
  impl.steps = result.step;
  impl.micro_batches_done += std::ssize(micro_batches);
  return impl.finish(std::exchange(impl.in_flight, std::move(flight)));
}

void Trainer::prepare(const WantedRows& wanted) {
  if (impl_->staged) return impl_->staged->prepare(wanted);
  impl_->recorded->prepare(wanted);
  if (impl_->kl_steps) impl_->kl_steps->prepare(wanted);  // as many rows with other answers
}

double Trainer::roofline_seconds(const WantedRows& wanted, const RooflinePeaks& peaks) {
  return impl_->recorded->prepare(wanted).batch().roofline_seconds(peaks) +
         impl_->update.roofline_seconds(peaks);
}

void Trainer::set_shares(std::vector<std::int64_t> shares) {
  require(impl_->exchange && shares.size() == impl_->shares.size(),
          "trainer: {} shares were given, but there are {} ranks", shares.size(),
          impl_->shares.size());
  impl_->shares = std::move(shares);
}

double Trainer::gradient_seconds(const PackedRows& micro_batch) {
  Impl& impl = *impl_;
  HostHold<InFlight> flight(impl.context);
  flight->result.tokens = std::max(1, micro_batch.target_count);
  flight->weight = micro_batch.target_count > 0 ? micro_batch.target_weight() : 1;
  double seconds = 0;
  for (int turn = 0; turn < 2; ++turn) {  // the first one records the step and builds kernels
    const auto begin = std::chrono::steady_clock::now();
    Fence before = impl.begin_gradients({&micro_batch, 1}, {0, 1}, *flight);
    impl.enqueue_gradients({&micro_batch, 1}, {0, 1}, *flight, std::move(before)).wait();
    seconds = seconds_since(begin);
  }
  flight.mark_idle();
  return seconds;
}

std::optional<StepResult> Trainer::drain() {
  impl_->finish_exchange();
  return impl_->finish(std::exchange(impl_->in_flight, {}));
}

std::shared_ptr<Arena> Trainer::arena() const noexcept { return impl_->arena; }

std::int64_t Trainer::steps() const noexcept { return impl_->steps; }

StageSeconds Trainer::stage_seconds() const noexcept {
  return impl_->staged ? impl_->staged->seconds() : StageSeconds();
}

Trainer::State Trainer::state() {
  impl_->finish_exchange();
  return {.step = impl_->steps,
          .micro_batches = impl_->micro_batches_done,
          .optimizer = impl_->optimizer->read(),
          .average = impl_->average->exists() ? average() : std::vector<float>()};
}

std::vector<float> Trainer::average() const { return impl_->average->read(); }

void Trainer::restore(const State& state) {
  impl_->average->restore(state.average);
  impl_->optimizer->write(state.optimizer);
  impl_->steps = state.step;
  impl_->micro_batches_done = state.micro_batches;
  impl_->broken_step = 0;
}

}  // namespace clora
