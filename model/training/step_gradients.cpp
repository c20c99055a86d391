#include "model/training/step_gradients.hpp"

#include <cmath>
#include <utility>

#include "model/training/frozen_ranks.hpp"
#include "runtime/fail.hpp"

namespace clora {

StepGradients::StepGradients(LanguageModel& model, Adapter& adapter, const TrainerConfig& config,
                             const StepSums& sums, Tensor update_settings)
    : model_(model),
      adapter_(adapter),
      config_(config),
      context_(model.context()),
      update_settings_(std::move(update_settings)),
      zero_(context_) {
  if (has_kl()) kl_ = context_.allocate({2}, DType::f32, MemoryTag::adapters);
  recorded_.emplace(model, &adapter,
                    StepTask{StepKind::train, config.contrastive, config.policy, config.preference,
                             config.ranks != nullptr && model.is_whole(), config.supervised},
                    results(sums), arena_);
  if (has_kl()) {
    kl_steps_.emplace(model, &adapter,
                      StepTask{StepKind::evaluate, std::nullopt, config.policy, config.preference},
                      StepResults{.loss_sum = sums.of(StepSums::loss), .kl = kl_}, arena_);
  }
  if (!model.is_whole()) staged_.emplace(model, *recorded_, *config.ranks);
  if (config.ranks != nullptr) {
    shares_.assign(static_cast<std::size_t>(config.ranks->size()), 1);
    exchange_.emplace(context_, *config.ranks, adapter.flat_gradients(), sums.exchanged());
  }
  zero_.fill_zero(adapter.flat_gradients());
  sums.record_zero(zero_);
  if (has_kl()) zero_.fill_zero(kl_);
  zero_.seal();
  if (config.gradient_noise) record_first_square(sums);
}

StepResults StepGradients::results(const StepSums& sums) const {
  const auto if_any = [&](bool any, StepSums::Value value) {
    return any ? sums.of(value) : Tensor();
  };
  return {.loss_sum = sums.of(StepSums::loss),
          .settings = update_settings_,
          .balance_loss = if_any(config_.router_aux_loss_coef > 0, StepSums::balance_loss),
          .nll_sum = if_any(config_.supervised.has_terms(), StepSums::nll),
          .preference_sums = sums.of_preference(),
          .kl = kl_};
}

void StepGradients::record_first_square(const StepSums& sums) {
  first_square_.emplace(context_);
  record_frozen_gradients(*first_square_, adapter_, config_.frozen_ranks);
  record_square_sum(*first_square_, sums.of(StepSums::first_square), adapter_.flat_gradients());
  first_square_->seal();
}

MicroBatchRange StepGradients::own_range(std::size_t count) const {
  if (!exchange_ || staged_) return {0, count};
  return range_of_rank(count, shares_, static_cast<std::size_t>(config_.ranks->rank()));
}

Fence StepGradients::compute(const Work& work, Staging& staging) {
  const MicroBatchRange own = own_range(work.micro_batches.size());
  Fence end = begin(work, own, staging);
  exchange_kl();
  return enqueue(work, own, staging, std::move(end));
}

Fence StepGradients::compute_alone(const Work& work, Staging& staging) {
  const MicroBatchRange all{0, work.micro_batches.size()};
  Fence end = begin(work, all, staging);
  return enqueue(work, all, staging, std::move(end));
}

Fence StepGradients::begin(const Work& work, MicroBatchRange own, Staging& staging) {
  Fence end = zero_.submit();
  recorded_->update_scales();
  if (!kl_steps_) return end;
  kl_steps_->update_scales();
  staging.kl_rows.resize(work.micro_batches.size());
  for (std::size_t i = own.begin; i < own.end; ++i) {
    end = kl_steps_->submit(*work.micro_batches[i].answers.mismatched, {}, staging.kl_rows[i]);
  }
  return end;
}

void StepGradients::exchange_kl() {
  if (!exchange_ || !has_kl()) return;
  std::vector<float> of_kl = context_.read<float>(kl_);
  config_.ranks->sum(of_kl);
  context_.write(kl_, std::as_bytes(std::span(of_kl)));
}

RecordedRows::Scalars StepGradients::scalars_of(const Work& work, std::size_t i) const {
  const double weight = 1 / work.weight;
  const double noise_of_one = config_.supervised.neftune_alpha /
                              std::sqrt(static_cast<double>(model_.config().hidden_size));
  // A running count, since steps may have different numbers of micro-batches.
  const auto draw = static_cast<std::uint32_t>(work.earlier + 1) + static_cast<std::uint32_t>(i);
  const auto micro_batches = static_cast<double>(work.micro_batches.size());
  return {.weight = config_.preference ? 1 : weight,
          .seed = config_.dropout_seed,
          .step = draw,
          .settings = work.settings,
          .balance_weight = static_cast<float>(config_.router_aux_loss_coef / micro_batches),
          .answer_weight = static_cast<float>(weight),
          .nll_weight = work.nll_rows > 0 ? 1.0F / static_cast<float>(work.nll_rows) : 0,
          .noise = static_cast<float>(noise_of_one)};
}

Fence StepGradients::enqueue(const Work& work, MicroBatchRange own, Staging& staging, Fence end) {
  staging.settings = work.settings;
  staging.rows.resize(work.micro_batches.size());
  const auto after = [&](std::size_t i) {
    if (i == 0 && first_square_ && work.micro_batches.size() > 1) end = first_square_->submit();
  };
  if (staged_) {
    staged_->run({.micro_batches = work.micro_batches,
                  .scalars = [&](std::size_t i) { return scalars_of(work, i); },
                  .staging = staging.rows,
                  .after_backward = after});
    return end;
  }
  for (std::size_t i = own.begin; i < own.end; ++i) {
    end = recorded_->submit(work.micro_batches[i], scalars_of(work, i), staging.rows[i]);
    after(i);
  }
  if (own.begin < own.end) return end;
  // A rank without a micro-batch updates its adapter all the same.
  return context_.write_async(update_settings_, std::as_bytes(std::span(&staging.settings, 1)));
}

void StepGradients::begin_exchange(const Work& work, Fence end) {
  const MicroBatchRange own = own_range(work.micro_batches.size());
  const bool computes = own.begin < own.end;
  if (!exchange_->has_parts()) {
    const RecordedStep& step = computes
                                   ? recorded_->latest()
                                   : recorded_->prepare(wanted_rows(work.micro_batches.front()));
    // Each stage has gradients of its own blocks: all are exchanged at the end.
    exchange_->set_parts(staged_ ? std::vector<GradientPart>() : step.gradient_parts());
  }
  // first_square_ reads the gradients of the first micro-batch before they are added to others.
  const bool waits = staged_ || (first_square_ && own.begin == 0 && own.end == 1);
  exchange_->begin(computes && !waits ? &recorded_->latest() : nullptr, std::move(end));
}

void StepGradients::set_shares(std::vector<std::int64_t> shares) {
  require(exchange_ && shares.size() == shares_.size(),
          "trainer: {} shares were given, but there are {} ranks", shares.size(), shares_.size());
  shares_ = std::move(shares);
}

void StepGradients::prepare(const WantedRows& wanted) {
  if (staged_) return staged_->prepare(wanted);
  recorded_->prepare(wanted);
  if (kl_steps_) kl_steps_->prepare(wanted);  // as many rows with other answers
}

double StepGradients::roofline_seconds(const WantedRows& wanted, const RooflinePeaks& peaks) {
  return recorded_->prepare(wanted).batch().roofline_seconds(peaks);
}

StageSeconds StepGradients::stage_seconds() const {
  return staged_ ? staged_->seconds() : StageSeconds();
}

}  // namespace clora
