#include "clora/model/training/evaluator.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "model/data/text_packing.hpp"
#include "model/training/staged_losses.hpp"
#include "model/transformer/finite_check.hpp"
#include "runtime/elapsed.hpp"
#include "runtime/fail.hpp"
#include "runtime/memory/host_hold.hpp"

namespace clora {
namespace {

// Rows of an evaluation batch: enough to keep every core busy, few enough for a step's memory.
constexpr std::size_t kEvaluationRows = 1024;
// Batches that the stages of a model compute between two exchanges of losses: more hide the time in
// which the first and the last stage wait, and take host memory.
constexpr std::size_t kGroupsInFlight = 16;

// Calls f(indices) for groups of at most `at_once` records and about kEvaluationRows tokens;
// together they contain every record once.
template <class F>
void for_each_group(const Records& records, std::size_t at_once, F f) {
  std::vector<std::size_t> group;
  std::size_t rows = 0;
  for (std::size_t i = 0; i < records.records.size(); ++i) {
    const std::size_t length = records.records.length(i);
    if (group.size() >= at_once || (!group.empty() && rows + length > kEvaluationRows)) {
      f(group);
      group.clear();
      rows = 0;
    }
    group.push_back(i);
    rows += length;
  }
  if (!group.empty()) f(group);
}

// Adds up the losses and tokens of all ranks.
void add_ranks(EvalResult& result, Communicator& ranks) {
  const std::vector<double> losses = gather_values(ranks, result.loss);
  const std::vector<double> tokens = gather_values(ranks, static_cast<double>(result.tokens));
  result.loss = std::accumulate(losses.begin(), losses.end(), 0.0);
  result.tokens = std::llround(std::accumulate(tokens.begin(), tokens.end(), 0.0));
}

}  // namespace

bool has_target(const RecordView& record) {
  const std::span<const std::uint8_t> marks = record.is_target;
  return std::find_if(marks.begin() + (marks.empty() ? 0 : 1), marks.end(),
                      [](std::uint8_t mark) { return mark != 0; }) != marks.end();
}

void require_any_target(const Records& records, std::string_view who) {
  for (const RecordView record : records.records) {
    if (has_target(record)) return;
  }
  fail(
      ErrorCode::invalid_data,
      "{}: at least one token must count towards the loss, but none of the first {} records has "
      "one ({} more were skipped for that reason); the loss covers completions and assistant turns",
      who, records.records.size(), records.skipped);
}

PackedRows pack_records(const Records& records, std::span<const std::size_t> indices) {
  std::vector<RecordView> chosen;
  std::size_t rows = 0;
  for (const std::size_t index : indices) {
    chosen.push_back(records.records[index]);
    rows += chosen.back().ids.size();
  }
  return pack_rows(chosen, rows);
}

PackedRows pack_for(const std::optional<ContrastiveLoss>& contrastive, const ModelConfig& model,
                    const Records& records, std::span<const std::size_t> indices) {
  if (!contrastive) return pack_records(records, indices);
  return pack_text_pairs(records, indices, text_packing(model, contrastive->pooling));
}

Evaluator::Evaluator(LanguageModel& model, const Adapter* adapter, std::shared_ptr<Arena> arena,
                     const std::optional<ContrastiveLoss>& contrastive, const MemoryPolicy& policy)
    : model_(&model),
      adapter_(adapter),
      contrastive_(contrastive),
      loss_sum_(model.context().allocate({1}, DType::f32, MemoryTag::activations)),
      steps_(model, adapter, StepTask{StepKind::evaluate, contrastive, policy}, {loss_sum_},
             std::move(arena)) {}

PackedRows Evaluator::pack(const Records& records, std::span<const std::size_t> indices) const {
  return pack_for(contrastive_, model_->config(), records, indices);
}

double Evaluator::loss_sum(const PackedRows& rows) {
  Context& context = model_->context();
  const float zero = 0;
  context.write(loss_sum_, std::as_bytes(std::span(&zero, 1)));
  HostHold<std::vector<std::int32_t>> staging(context);
  steps_.update_scales();  // the adapter may have been trained since
  steps_.submit(rows, {}, *staging);
  const double sum = static_cast<double>(context.read<float>(loss_sum_).front());
  staging.mark_idle();  // the read came after its upload
  return sum;
}

void Evaluator::fail_at_first_of(const Records& records, std::span<const std::size_t> indices,
                                 Communicator* ranks) {
  const auto bad = std::ranges::find_if(indices, [&](std::size_t index) {
    const PackedRows rows = pack(records, std::array{index});
    return !std::isfinite(
        ranks == nullptr
            ? loss_sum(rows)
            : staged_loss_sums(*model_, steps_, loss_sum_, {&rows, 1}, *ranks).front());
  });
  const std::size_t record = (bad == indices.end() ? indices.front() : *bad) + 1;
  const bool is_f16 = model_->context().activation_type() == DType::f16;
  fail_not_finite(fmt::format("evaluator: the loss of record {}", record), *model_, adapter_,
                  is_f16 ? "every weight is finite; its activations exceed 65504, the largest f16: "
                           "set ContextConfig::activations to f32 or bf16"
                         : "every weight is finite; its activations are too large for 32-bit "
                           "floats");
}

void Evaluator::add_loss(EvalResult& result, const Records& records, std::size_t at_once,
                         Communicator* ranks) {
  std::size_t groups = 0;
  for_each_group(records, at_once, [&](const std::vector<std::size_t>& group) {
    if (!is_own(groups++, ranks)) return;
    const PackedRows rows = pack(records, group);
    const double sum = loss_sum(rows);
    if (!std::isfinite(sum)) fail_at_first_of(records, group, nullptr);
    result.loss += sum;
    result.tokens += rows.target_count;
  });
  if (ranks != nullptr) add_ranks(result, *ranks);
  result.loss /= static_cast<double>(result.tokens);
}

void Evaluator::add_staged_loss(EvalResult& result, const Records& records, std::size_t at_once,
                                Communicator* ranks) {
  require(ranks != nullptr, "evaluator: a model that is split by layers needs the ranks of all");
  std::vector<std::vector<std::size_t>> groups;
  const auto add_groups = [&] {
    std::vector<PackedRows> rows;
    for (const auto& group : groups) rows.push_back(pack(records, group));
    const std::vector<double> sums = staged_loss_sums(*model_, steps_, loss_sum_, rows, *ranks);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!std::isfinite(sums[i])) fail_at_first_of(records, groups[i], ranks);
      result.loss += sums[i];
      result.tokens += rows[i].target_count;
    }
    groups.clear();
  };
  for_each_group(records, at_once, [&](const std::vector<std::size_t>& group) {
    groups.push_back(group);
    if (groups.size() == kGroupsInFlight) add_groups();
  });
  if (!groups.empty()) add_groups();
  result.loss /= static_cast<double>(result.tokens);
}

EvalResult Evaluator::evaluate(const Records& records, std::size_t at_once, Communicator* ranks) {
  require_any_target(records, "evaluator");
  const auto begin = std::chrono::steady_clock::now();
  EvalResult result;
  if (!model_->is_whole()) {
    add_staged_loss(result, records, at_once, ranks);
  } else if (records.scores.empty()) {
    add_loss(result, records, at_once, ranks);
  } else {
    result.loss = std::numeric_limits<double>::quiet_NaN();
  }
  if (contrastive_ && is_own(0, ranks)) {
    result.embedding = embedding_scores(*model_, adapter_, contrastive_->pooling, records);
  }
  result.seconds = seconds_since(begin);
  return result;
}

}  // namespace clora
