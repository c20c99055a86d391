#include "clora/model/training/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "clora/model/training/rank_shares.hpp"
#include "clora/model/training/recorded_step.hpp"
#include "clora/ops/optimizers/average.hpp"
#include "lora/end_modules.hpp"
#include "model/configuration/experts_layer.hpp"
#include "model/training/device_optimizer.hpp"
#include "model/training/gradient_exchange.hpp"
#include "model/training/gradient_noise.hpp"
#include "model/transformer/finite_check.hpp"
#include "ops/optimizers/flat_update.hpp"
#include "runtime/elapsed.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"
#include "runtime/memory/host_hold.hpp"

namespace clora {
namespace {

void check_balance(double coefficient, const ModelConfig& config) {
  require(std::isfinite(coefficient) && coefficient >= 0,
          "trainer: `router_aux_loss_coef` must be finite and not negative, got {}", coefficient);
  require(coefficient == 0 || expert_layers(config) > 0,
          "trainer: `router_aux_loss_coef` balances the load of experts, but the model has none; "
          "leave it out");
}

bool trains_head(const Adapter& adapter) {
  return adapter.find(kHeadPath) != nullptr ||
         !adapter.saved(fmt::format("{}.weight", kHeadPath)).empty();
}

void check_supervised(const TrainerConfig& config) {
  check(config.supervised);
  require(config.supervised == SupervisedLoss() || (!config.contrastive && !config.preference),
          "trainer: label smoothing, the z-loss and NEFTune are options of the loss of the next "
          "token, but the run has a {} loss; leave them out",
          config.contrastive ? "contrastive" : "preference");
}

// A step whose result has not been read yet, and the host memory of its transfers.
struct InFlight {
  StepResult result;
  std::size_t micro_batches = 0;
  double weight = 0, first_weight = 0;  // of the labelled tokens, and of those of the first one
  std::vector<std::vector<std::int32_t>> staging, kl_staging;
  UpdateSettings settings;
  std::vector<float> results;  // in the layout of the device buffer
  std::vector<float> sums;     // over ranks, in the order of the exchange; empty: one rank
  Fence fence;
};

// In the results.
constexpr std::size_t kLossSum = 0, kGradNorm = 1, kBalanceLoss = 2, kNllSum = 3, kFirstSquare = 4;
// In the sums over ranks.
constexpr std::size_t kSummed[] = {kLossSum, kBalanceLoss, kNllSum, kFirstSquare};

}  // namespace

struct Trainer::Impl {
  Impl(LanguageModel& language_model, Adapter& trained, const TrainerConfig& settings)
      : model(language_model),
        adapter(trained),
        config(settings),
        context(language_model.context()),
        zero(context),
        update(context) {
    if (context.activation_type() == DType::f16) {
      fail(ErrorCode::unsupported,
           "trainer: gradients in f16 would underflow, since there is no loss scaling; set "
           "ContextConfig::activations to f32 or bf16");
    }
    if (const auto matrix = adapter_not_finite(adapter)) {
      fail(ErrorCode::invalid_data, "trainer: the adapter cannot be trained: {}", *matrix);
    }
    check_balance(config.router_aux_loss_coef, model.config());
    check(config.policy);
    check_supervised(config);
    if (config.preference) check(*config.preference);
    if (config.preference && trains_head(adapter)) {
      fail(
          ErrorCode::unsupported,
          "trainer: a preference loss does not train the head, whose gradients are computed before "
          "those of the answers; leave lm_head out of modules_to_save and target_modules");
    }
    adapter.allocate_gradients();
    const auto step = static_cast<std::int64_t>(context.device().base_alignment_bytes / 4);
    const std::int64_t of_preference = config.preference ? round_up(kPreferenceSums, step) : 0;
    results = context.allocate({std::int64_t{kResults} * step + of_preference}, DType::f32,
                               MemoryTag::adapters);
    if (has_kl()) kl = context.allocate({2}, DType::f32, MemoryTag::adapters);
    update_settings = context.allocate({8}, DType::f32, MemoryTag::adapters);
    recorded = std::make_unique<RecordedSteps>(
        language_model, &adapter,
        StepTask{StepKind::train, config.contrastive, config.policy, config.preference,
                 config.ranks != nullptr, config.supervised},
        step_results(), arena);
    if (has_kl()) {
      kl_steps = std::make_unique<RecordedSteps>(
          language_model, &adapter,
          StepTask{StepKind::evaluate, std::nullopt, config.policy, config.preference},
          StepResults{.loss_sum = loss_sum(), .kl = kl}, arena);
    }
    if (config.ranks != nullptr) {
      shares.assign(static_cast<std::size_t>(config.ranks->size()), 1);
      exchange.emplace(context, *config.ranks, adapter.flat_gradients(), exchanged_sums());
    }
    zero.fill_zero(adapter.flat_gradients());
    for (const std::size_t i : kSummed) zero.fill_zero(result(i));
    if (config.preference) zero.fill_zero(preference_sums());
    if (has_kl()) zero.fill_zero(kl);
    optimizer.emplace(context, config.optimizer, adapter.parameter_set());
    optimizer->record(update, update_settings, grad_norm());
    record_average();
    if (config.gradient_noise) {
      first_square.emplace(context);
      record_square_sum(*first_square, result(kFirstSquare), adapter.flat_gradients());
      first_square->seal();
    }
    zero.seal();  // all memory of the trainer but that of its steps is taken here
    update.seal();
  }

  // The results begin where a kernel argument may: kResults of one value each, and those of a
  // preference loss.
  std::size_t result_at(std::size_t i) const {
    return i * context.device().base_alignment_bytes / 4;
  }
  Tensor result(std::size_t i, std::int64_t count = 1) const {
    return results.slice(4 * result_at(i), {count}, DType::f32);
  }
  Tensor loss_sum() const { return result(kLossSum); }
  Tensor grad_norm() const { return result(kGradNorm); }
  Tensor balance_loss() const { return result(kBalanceLoss); }
  bool has_kl() const { return config.preference && config.preference->has_kl(); }
  Tensor preference_sums() const { return result(kResults, kPreferenceSums); }
  // In the order in which finish() reads their sums over ranks.
  std::vector<Tensor> exchanged_sums() const {
    std::vector<Tensor> all;
    for (const std::size_t i : kSummed) all.push_back(result(i));
    if (config.preference) all.push_back(preference_sums());
    return all;
  }
  StepResults step_results() const {
    return {.loss_sum = loss_sum(),
            .settings = update_settings,
            .balance_loss = config.router_aux_loss_coef > 0 ? balance_loss() : Tensor(),
            .nll_sum = config.supervised.has_terms() ? result(kNllSum) : Tensor(),
            .preference_sums = config.preference ? preference_sums() : Tensor(),
            .kl = kl};
  }

  // After the update, so that the average of a step has its parameters.
  void record_average() {
    if (config.average_decay == 0) return;
    average = context.upload<float>(adapter.parameters().shape(), DType::f32,
                                    context.read<float>(adapter.parameters()), MemoryTag::adapters);
    clora::record_average(update, average, adapter.parameters(), config.average_decay);
  }
  void restore_average(const std::vector<float>& values);

  UpdateSettings settings_of(std::int64_t step, double learning_rate) const;
  MicroBatchRange own_range(std::size_t count) const;
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
  static constexpr std::size_t kResults = 5;  // of one value
  std::unique_ptr<RecordedSteps> recorded, kl_steps;
  std::vector<std::int64_t> shares;  // of the ranks
  std::optional<GradientExchange> exchange;
  Batch zero, update;
  std::optional<Batch> first_square;  // of the gradients of the step's first micro-batch
  GradientNoise noise;
  Tensor results, update_settings, kl;
  Tensor average;  // empty without an average
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
  if (!exchange) return {0, count};
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
  std::vector<float> sums = context.read<float>(kl);
  config.ranks->sum(sums);
  context.write(kl, std::as_bytes(std::span(sums)));
}

Fence Trainer::Impl::enqueue_gradients(std::span<const PackedRows> micro_batches,
                                       MicroBatchRange own, InFlight& flight, Fence end) {
  flight.settings = settings_of(flight.result.step, flight.result.learning_rate);
  const auto balance_weight =
      static_cast<float>(config.router_aux_loss_coef / static_cast<double>(micro_batches.size()));
  flight.staging.resize(micro_batches.size());
  const double weight = 1 / flight.weight;
  const double width = static_cast<double>(model.config().hidden_size);
  const double noise_of_one = config.supervised.neftune_alpha / std::sqrt(width);
  const std::int64_t nll_rows = flight.result.nll_rows;
  for (std::size_t i = own.begin; i < own.end; ++i) {
    // A running count, since steps may have different numbers of micro-batches.
    const auto draw =
        static_cast<std::uint32_t>(micro_batches_done + 1) + static_cast<std::uint32_t>(i);
    end = recorded->submit(micro_batches[i],
                           {.weight = config.preference ? 1 : weight,
                            .seed = config.dropout_seed,
                            .step = draw,
                            .settings = flight.settings,
                            .balance_weight = balance_weight,
                            .answer_weight = static_cast<float>(weight),
                            .nll_weight = nll_rows > 0 ? 1.0F / static_cast<float>(nll_rows) : 0,
                            .noise = static_cast<float>(noise_of_one)},
                           flight.staging[i]);
    if (i == 0 && first_square && micro_batches.size() > 1) end = first_square->submit();
  }
  if (own.begin < own.end) return end;
  // A rank without a micro-batch updates its adapter all the same.
  return context.write_async(update_settings, std::as_bytes(std::span(&flight.settings, 1)));
}

void Trainer::Impl::begin_exchange(std::span<const PackedRows> micro_batches, MicroBatchRange own,
                                   Fence end) {
  const bool computes = own.begin < own.end;
  if (!exchange->has_parts()) {
    exchange->set_parts(computes ? recorded->latest()
                                 : recorded->prepare(wanted_rows(micro_batches.front())));
  }
  // first_square reads the gradients of the first micro-batch before they are added to others.
  const bool waits = first_square && own.begin == 0 && own.end == 1;
  exchange->begin(computes && !waits ? &recorded->latest() : nullptr, std::move(end));
}

void Trainer::Impl::finish_exchange() {
  if (!exchange || !exchange->pending()) return;
  HostHold<InFlight> flight = std::exchange(in_flight, {});  // has no result if the exchange fails
  broken_step = flight->result.step;
  flight->sums = exchange->finish();
  enqueue_update(*flight);
  broken_step = 0;
  in_flight = std::move(flight);
}

void Trainer::Impl::enqueue_update(InFlight& flight) {
  update.submit();
  flight.results.resize(static_cast<std::size_t>(results.elements()));
  flight.fence = context.read_async(results, std::as_writable_bytes(std::span(flight.results)));
  context.flush();
}

std::optional<StepResult> Trainer::Impl::finish(HostHold<InFlight> flight) {
  if (!flight) return std::nullopt;
  const TraceSpan span(context.trace(), "wait", "results of the step before");
  flight->fence.wait();
  flight.mark_idle();
  const auto value = [&](std::size_t i) {
    const auto* const summed = std::ranges::find(kSummed, i);
    const bool is_summed = !flight->sums.empty() && summed != std::end(kSummed);
    return static_cast<double>(
        is_summed ? flight->sums[static_cast<std::size_t>(summed - std::begin(kSummed))]
                  : flight->results[result_at(i)]);
  };
  const std::vector<float>& sums = flight->sums;
  StepResult& result = flight->result;
  result.balance_loss = value(kBalanceLoss) / static_cast<double>(flight->micro_batches);
  const double divisor = config.contrastive ? flight->weight : 1;  // others have weights in the sum
  result.loss = value(kLossSum) / divisor + config.router_aux_loss_coef * result.balance_loss;
  if (config.supervised.has_terms()) result.nll = value(kNllSum);
  if (config.preference) {
    const PreferenceSums of_pairs =
        sums_of(sums.empty() ? std::span<const float>(flight->results).subspan(result_at(kResults))
                             : std::span(sums).subspan(std::size(kSummed)));
    const PreferenceKind kind = config.preference->formula.kind;
    result.loss += loss_of(of_pairs, kind, result.nll_rows);
    result.preference = scores_of(of_pairs, kind, result.nll_rows);
  }
  result.grad_norm = value(kGradNorm);
  require_finite(result);
  if (first_square && flight->micro_batches > 1) add_noise(*flight, value(kFirstSquare));
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

Trainer::Trainer(LanguageModel& model, Adapter& adapter, const TrainerConfig& config)
    : impl_(std::make_unique<Impl>(model, adapter, config)) {}

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

Trainer::State Trainer::state() {
  impl_->finish_exchange();
  return {.step = impl_->steps,
          .micro_batches = impl_->micro_batches_done,
          .optimizer = impl_->optimizer->read(),
          .average = impl_->average.empty() ? std::vector<float>() : average()};
}

std::vector<float> Trainer::average() const {
  require(!impl_->average.empty(), "trainer: there is no average; set `average_decay`");
  return impl_->context.read<float>(impl_->average);
}

void Trainer::Impl::restore_average(const std::vector<float>& values) {
  const auto elements = average.empty() ? 0 : static_cast<std::size_t>(average.elements());
  require(values.size() == elements,
          "trainer: the state to restore must have an average of {} parameters, got {}; create the "
          "trainer with the same `average_decay`",
          elements, values.size());
  if (!average.empty()) context.write(average, std::as_bytes(std::span(values)));
}

void Trainer::restore(const State& state) {
  impl_->restore_average(state.average);
  impl_->optimizer->write(state.optimizer);
  impl_->steps = state.step;
  impl_->micro_batches_done = state.micro_batches;
  impl_->broken_step = 0;
}

}  // namespace clora
