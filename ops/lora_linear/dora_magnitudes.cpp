#include "ops/lora_linear/dora_magnitudes.hpp"

#include <algorithm>
#include <array>

#include "ops/launch_grids.hpp"
#include "ops/lora_linear/dora_options.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kMaxSums = 8;  // of a launch: MAX_SUMS of the kernel

struct Sizes {
  std::array<std::uint32_t, kMaxSums> columns{}, chunks{};
};

}  // namespace

void DeferredMagnitudes::add(Batch& batch, const Tensor& dmagnitude, const Tensor& parts,
                             const Tensor& magnitude) {
  const bool is_waiting = std::ranges::any_of(
      waiting_, [&](const Sum& sum) { return overlap(sum.dmagnitude, dmagnitude); });
  if (is_waiting || waiting_.size() == kMaxSums) flush(batch);
  waiting_.push_back({dmagnitude, parts, magnitude});
}

void DeferredMagnitudes::flush(Batch& batch) {
  if (waiting_.empty()) return;
  Context& context = batch.context();
  waiting_.resize(kMaxSums);
  std::vector<Argument> arguments;
  Sizes sizes;
  Cost cost;
  std::uint32_t widest = 0, count = 0;
  for (const auto& [dmagnitude, parts, magnitude] : waiting_) {
    arguments.insert(arguments.end(), {dmagnitude, parts, magnitude});
    if (parts.empty()) continue;
    sizes.chunks.at(count) = u32(parts.shape()[0]);
    sizes.columns.at(count) = u32(parts.shape()[1]);
    widest = std::max(widest, sizes.columns.at(count++));
    const auto work = static_cast<double>(parts.elements());
    cost = {cost.flops + work, cost.bytes + 4 * work};
  }
  arguments.emplace_back(by_value(sizes));
  const std::size_t items = dora_sum_group(context);
  Launch launch{context.kernel("dora.cl", "dora_magnitudes", dora_defines(context, 1)),
                {{items * divide_up(widest, kDoraColumns), count, 1}, {items, 1, 1}},
                cost,
                "dora/magnitudes"};
  batch.record(std::move(launch), std::move(arguments));
  waiting_.clear();
}

}  // namespace clora
