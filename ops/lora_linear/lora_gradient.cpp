#include "clora/ops/lora_linear/lora_gradient.hpp"

#include <algorithm>
#include <utility>

#include "clora/ops/gemm/gemm.hpp"
#include "ops/activations.hpp"
#include "ops/lora_linear/lora_gradient_dispatch.hpp"

namespace clora {
namespace {

void record_shrink(Batch& batch, const LoraGradientProduct& p) {
  const Tensor shrunk = f32_result(batch, p.shrunk);
  record_gemm(batch, shrunk, p.x, p.b, {.scale = p.shrink_scale});
  record_result(batch, p.shrunk, shrunk);
}

bool waits_for_others(Context& context, const LoraGradientProduct& p) {
  return choose_lora_gradient(context, p).max_problems > 1;
}

// How many of the problems, from the first on, one launch computes.
std::size_t joined(Context& context, std::span<const LoraGradientProduct> problems) {
  const LoraGradientImplementation& chosen = choose_lora_gradient(context, problems.front());
  const std::size_t most = std::min(problems.size(), chosen.max_problems);
  const auto joins = [&](std::size_t count) {
    return &choose_lora_gradient(context, problems[count]) == &chosen &&
           chosen.can_join(problems.first(count), problems[count]);
  };
  std::size_t count = 1;
  while (count < most && joins(count)) ++count;
  return count;
}

// REQUIRES: at most as many as joined().
void record_joined(Batch& batch, std::span<const LoraGradientProduct> problems) {
  const LoraGradientImplementation& chosen =
      choose_lora_gradient(batch.context(), problems.front());
  chosen.record(batch, problems);
  if (chosen.fuses_shrink) return;
  for (const LoraGradientProduct& p : problems) {
    if (!p.shrunk.empty()) record_shrink(batch, p);
  }
}

}  // namespace

void record_gradient(Batch& batch, const LoraGradientProduct& p) { record_joined(batch, {&p, 1}); }

void DeferredGradients::add(Batch& batch, const LoraGradientProduct& p) {
  if (!waits_for_others(batch.context(), p)) return record_gradient(batch, p);
  waiting_.push_back(p);
}

void DeferredGradients::record(Batch& batch, std::span<const LoraGradientProduct> problems) {
  std::vector<LoraGradientProduct> all = std::exchange(waiting_, {});
  for (const LoraGradientProduct& p : problems) {
    if (waits_for_others(batch.context(), p)) {
      all.push_back(p);
    } else {
      record_gradient(batch, p);
    }
  }
  for (std::span<const LoraGradientProduct> rest = all; !rest.empty();) {
    const std::size_t count = joined(batch.context(), rest);
    record_joined(batch, rest.first(count));
    rest = rest.subspan(count);
  }
}

}  // namespace clora
