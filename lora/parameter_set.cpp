#include "clora/lora/parameter_set.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// Checks the total before any allocation, instead of failing at one of them.
void require_free_memory(Context& context, std::string_view owner, std::size_t elements) {
  const MemoryStatistics pool = context.pool().statistics();
  if (elements <= pool.free_bytes() / sizeof(float)) return;
  fail(ErrorCode::out_of_memory,
       "{}: its matrices need {} MiB, '{}' has {} MiB free of {} MiB; use a lower rank or "
       "fewer target modules",
       owner, elements / (std::size_t{1 << 20} / sizeof(float)), context.device().name,
       pool.free_bytes() >> 20U, pool.limit_bytes >> 20U);
}

}  // namespace

// A slice begins at an aligned address for kernel arguments, also in a copy of the buffer in bf16.
// Offsets are the same on all devices that need no more than kAlignment, so that unlike ones can
// train one set together.
ParameterSet::ParameterSet(Context& context) : context_(&context) {
  constexpr std::size_t kAlignment = 512;  // bytes
  const std::size_t bytes =
      std::max<std::size_t>(kAlignment, context.device().base_alignment_bytes);
  step_ = std::max<std::size_t>(kBlock, bytes / 2);
}

std::size_t ParameterSet::add_group(ParameterGroup group) {
  require(groups_.size() < kMaxGroups, "parameters: at most {} groups are possible", kMaxGroups);
  groups_.push_back(std::move(group));
  return groups_.size() - 1;
}

std::size_t ParameterSet::add(ParameterSlice slice) {
  require(slice.group < groups_.size(), "parameters: {} needs one of the {} groups, got number {}",
          slice.name, groups_.size(), slice.group);
  require(parameters_.empty(), "parameters: {} is added after the buffers were allocated",
          slice.name);
  slice.offset = end_;
  end_ = round_up(end_ + static_cast<std::size_t>(slice.shape.elements()), step_);
  slices_.push_back(std::move(slice));
  return slices_.back().offset;
}

void ParameterSet::allocate(std::string_view owner) {
  require_free_memory(*context_, owner, end_);
  const std::vector<float> zeros(end_);
  parameters_ = context_->upload<float>({static_cast<std::int64_t>(end_)}, DType::f32, zeros,
                                        MemoryTag::adapters);
}

void ParameterSet::allocate_gradients() {
  if (!gradients_.empty()) return;
  require(!parameters_.empty(), "parameters: gradients need parameters, which were not allocated");
  const std::vector<float> zeros(end_);
  gradients_ = context_->upload<float>(parameters_.shape(), DType::f32, zeros, MemoryTag::adapters);
}

std::int64_t ParameterSet::elements() const noexcept {
  return std::accumulate(
      slices_.begin(), slices_.end(), std::int64_t{0},
      [](std::int64_t sum, const ParameterSlice& slice) { return sum + slice.shape.elements(); });
}

Tensor ParameterSet::view(const Tensor& flat, std::size_t offset, Shape shape) {
  return flat.slice(bytes_of(flat.type(), offset), shape, flat.type());
}

}  // namespace clora
