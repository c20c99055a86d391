#include "model/evaluator.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/host_hold.hpp"

namespace clora {
namespace {

// Rows of an evaluation batch: enough to keep every core busy, few enough for the memory of a step.
constexpr std::size_t kEvaluationRows = 1024;

// Calls f(indices) for groups of records of about kEvaluationRows tokens that cover every record
// once.
template <class F>
void for_each_group(const Records& records, F f) {
  std::vector<std::size_t> group;
  std::size_t rows = 0;
  for (std::size_t i = 0; i < records.records.size(); ++i) {
    const std::size_t length = records.records[i].ids.size();
    if (!group.empty() && rows + length > kEvaluationRows) {
      f(group);
      group.clear();
      rows = 0;
    }
    group.push_back(i);
    rows += length;
  }
  if (!group.empty()) f(group);
}

}  // namespace

PackedRows pack_records(const Records& records, std::span<const std::size_t> indices,
                        std::size_t window) {
  std::vector<const Record*> chosen;
  std::size_t rows = 0;
  for (const std::size_t index : indices) {
    chosen.push_back(&records.records[index]);
    rows += records.records[index].ids.size();
  }
  return pack_rows(std::span<const Record* const>(chosen), rows, window);
}

Evaluator::Evaluator(LanguageModel& model, const Adapter* adapter, std::shared_ptr<Arena> arena)
    : model_(&model),
      loss_sum_(model.context().allocate({1}, DType::f32, MemoryTag::activations)),
      steps_(model, adapter, StepKind::evaluate, {loss_sum_}, std::move(arena)) {}

double Evaluator::loss_sum(const PackedRows& rows) {
  Context& context = model_->context();
  const float zero = 0;
  context.write(loss_sum_, std::as_bytes(std::span(&zero, 1)));
  HostHold<std::vector<std::int32_t>> staging(context);
  steps_.submit(rows, {}, *staging);
  const double sum = static_cast<double>(context.read<float>(loss_sum_).front());
  staging.at_rest();  // the read came after its upload
  return sum;
}

EvalResult Evaluator::evaluate(const Records& records) {
  const auto begin = std::chrono::steady_clock::now();
  const auto window = static_cast<std::size_t>(model_->config().sliding_window.value_or(0));
  EvalResult result;
  for_each_group(records, [&](const std::vector<std::size_t>& group) {
    const PackedRows rows = pack_records(records, group, window);
    result.loss += loss_sum(rows);
    result.tokens += rows.target_count;
  });
  result.loss /= std::max(1.0, static_cast<double>(result.tokens));
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace clora
