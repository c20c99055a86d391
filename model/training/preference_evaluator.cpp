#include "model/training/preference_evaluator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "model/transformer/finite_check.hpp"
#include "runtime/elapsed.hpp"
#include "runtime/memory/host_hold.hpp"

namespace clora {
namespace {

// Rows of an evaluation step, as of Evaluator.
constexpr std::size_t kEvaluationRows = 1024;

// Calls f(indices, number) for groups of at most `at_once` successive records and about
// kEvaluationRows rows, until it returns false; returns whether it never did.
template <class F>
bool for_each_group(const PreferenceRows& rows, std::size_t at_once, F f) {
  std::vector<std::size_t> group;
  std::size_t count = 0, number = 0;
  for (std::size_t i = 0; i < rows.records().records.size(); ++i) {
    const std::size_t more = rows.sizes_of(rows.records().records[i]).rows;
    if (group.size() >= at_once || (!group.empty() && count + more > kEvaluationRows)) {
      if (!f(group, number++)) return false;
      group.clear();
      count = 0;
    }
    group.push_back(i);
    count += more;
  }
  return group.empty() || f(group, number);
}

}  // namespace

PreferenceEvaluator::PreferenceEvaluator(LanguageModel& model, const Adapter* adapter,
                                         std::shared_ptr<Arena> arena, const PreferenceLoss& loss,
                                         const MemoryPolicy& policy)
    : model_(&model),
      adapter_(adapter),
      loss_(loss),
      logps_(model.context().allocate({kMaxAnswers}, DType::f32, MemoryTag::activations)),
      kl_(model.context().allocate({2}, DType::f32, MemoryTag::activations)),
      sums_(model.context().allocate({kPreferenceSums}, DType::f32, MemoryTag::activations)),
      logps_steps_(model, adapter,
                   StepTask{StepKind::evaluate, std::nullopt, policy, PreferenceLoss()},
                   {.loss_sum = {}, .answer_logps = logps_}, arena),
      kl_steps_(model, adapter, StepTask{StepKind::evaluate, std::nullopt, policy, loss},
                {.loss_sum = {}, .kl = kl_}, arena),
      loss_steps_(model, adapter, StepTask{StepKind::evaluate, std::nullopt, policy, loss},
                  {.loss_sum = {}, .preference_sums = sums_, .kl = kl_}, arena) {}

std::vector<float> PreferenceEvaluator::answer_logps(const PackedRows& rows) {
  Context& context = model_->context();
  HostHold<std::vector<std::int32_t>> staging(context);
  logps_steps_.submit(rows, {}, *staging);
  std::vector<float> logps = context.read<float>(logps_);
  staging.mark_idle();  // the read came after its upload
  logps.resize(rows.answers.label.size());
  return logps;
}

void PreferenceEvaluator::set_zero(const Tensor& tensor) {
  const std::vector<float> zeros(static_cast<std::size_t>(tensor.elements()));
  model_->context().write(tensor, std::as_bytes(std::span(zeros)));
}

void PreferenceEvaluator::require_finite(std::span<const float> logps,
                                         std::size_t first_record) const {
  const auto bad = std::ranges::find_if(logps, [](float x) { return !std::isfinite(x); });
  if (bad == logps.end()) return;
  const auto at = static_cast<std::size_t>(bad - logps.begin()) / (loss_.has_pairs() ? 2 : 1);
  fail_not_finite(
      fmt::format("training: the log-probability of an answer of record {}", first_record + at + 1),
      *model_, adapter_,
      "every weight is finite; its activations are too large for the type of "
      "activations");
}

void PreferenceEvaluator::compute_reference_of(PreferenceRows& rows,
                                               const std::vector<std::size_t>& group) {
  const PackedRows packed = rows.pack(group);
  const std::vector<float> logps = answer_logps(packed);
  require_finite(logps, group.front());
  std::vector<float> exchanged;
  if (packed.answers.mismatched) {
    exchanged = answer_logps(*packed.answers.mismatched);
    require_finite(exchanged, group.front());
  }
  for (std::size_t k = 0; k < group.size(); ++k) {
    float* const of_record = rows.reference().data() + 2 * group[k];
    of_record[0] = loss_.has_pairs() ? logps[2 * k] : logps[k];
    of_record[1] = loss_.has_pairs() ? logps[2 * k + 1] : exchanged[k];
  }
}

// should_stop() is called once for each round of the ranks: one that computes need not be waited
// for within a round.
bool PreferenceEvaluator::compute_reference(PreferenceRows& rows,
                                            const std::function<bool()>& should_stop,
                                            Communicator* ranks) {
  if (!loss_.has_reference()) return true;
  logps_steps_.update_scales();
  std::ranges::fill(rows.reference(), 0.0F);
  const std::size_t round = ranks == nullptr ? 1 : static_cast<std::size_t>(ranks->size());
  const bool completed = for_each_group(
      rows, kMaxAnswers / 2, [&](const std::vector<std::size_t>& group, std::size_t number) {
        if (number % round == 0 && should_stop && should_stop()) return false;
        if (is_own(number, ranks)) compute_reference_of(rows, group);
        return true;
      });
  if (completed && ranks != nullptr) ranks->sum(rows.reference());  // others have 0
  return completed;
}

void PreferenceEvaluator::add_loss_of(const PackedRows& packed) {
  Context& context = model_->context();
  HostHold<std::vector<std::int32_t>> staging(context), kl_staging(context);
  if (loss_.has_kl()) {
    set_zero(kl_);
    kl_steps_.submit(*packed.answers.mismatched, {}, *kl_staging);
  }
  loss_steps_.submit(packed, {}, *staging);
  context.finish();
  staging.mark_idle();
  kl_staging.mark_idle();
}

EvalResult PreferenceEvaluator::evaluate(const PreferenceRows& rows, std::size_t at_once,
                                         Communicator* ranks) {
  const auto begin = std::chrono::steady_clock::now();
  set_zero(sums_);
  loss_steps_.update_scales();  // the adapter may have been trained since
  if (loss_.has_kl()) kl_steps_.update_scales();
  EvalResult result;
  std::int64_t nll_rows = 0;
  const std::size_t most = loss_.has_kl() ? at_once : kMaxAnswers / 2;
  for_each_group(rows, most, [&](const std::vector<std::size_t>& group, std::size_t number) {
    const PackedRows packed = rows.pack(group);
    if (is_own(number, ranks)) add_loss_of(packed);
    result.tokens += packed.target_count;
    nll_rows += packed.answers.nll_rows;
    return true;
  });
  std::vector<float> values = model_->context().read<float>(sums_);
  if (ranks != nullptr) ranks->sum(values);
  const PreferenceSums sums = sums_of(values);
  result.loss = loss_of(sums, loss_.formula.kind, nll_rows);
  if (!std::isfinite(result.loss)) {
    fail_not_finite("evaluator: the loss", *model_, adapter_,
                    "every weight is finite; activations are too large for their type");
  }
  result.preference = scores_of(sums, loss_.formula.kind, nll_rows);
  result.seconds = seconds_since(begin);
  return result;
}

}  // namespace clora
