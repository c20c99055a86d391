#include "model/transformer/adapted_experts.hpp"

#include <algorithm>
#include <limits>

#include "runtime/fail.hpp"

namespace clora {
namespace {

// In elements of the flat buffer.
std::uint32_t offset_of(std::size_t offset, const std::string& path) {
  constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max() - 1;
  if (offset > kMost)
    fail(ErrorCode::unsupported,
         "adapter: the matrices before those of {} have {} elements; experts support {} at most; "
         "use a lower rank or fewer target modules",
         path, offset, kMost);
  return static_cast<std::uint32_t>(offset);
}

}  // namespace

AdaptedExperts::AdaptedExperts(Recording& recording, const StackedLinears& linears,
                               const Shape& shape)
    : recording_(recording), linears_(linears), shape_(shape) {
  if (recording.adapter() == nullptr) return;
  find_adapters(*recording.adapter());
  if (has_adapter() && recording.trains() && adapter_->config().dropout > 0)
    fail(ErrorCode::unsupported,
         "adapter: dropout of {} is not supported for experts, such as {}; set it to 0, or leave "
         "the experts out of the target modules",
         adapter_->config().dropout, linears.paths.front());
}

void AdaptedExperts::find_adapters(const Adapter& adapter) {
  std::vector<std::uint32_t> a, bt;
  for (const std::string& path : linears_.paths) {
    const AdapterModule* module = adapter.find(path);
    a.push_back(module == nullptr ? kNoMatrix : offset_of(module->a_offset, path));
    bt.push_back(module == nullptr ? kNoMatrix : offset_of(module->bt_offset, path));
    if (module == nullptr) continue;
    if (adapter.config().use_dora)
      fail(ErrorCode::unsupported,
           "adapter: DoRA is not supported for experts, such as {}; leave them out of the target "
           "modules, or merge the adapter into its base model with clora fuse",
           path);
    const bool is_first = adapter_ == nullptr;
    if (!is_first && (module->rank != rank_ || module->scale != scale_))
      fail(ErrorCode::unsupported,
           "adapter: {} has rank {} and scale {}, other experts of its layer {} and {}; they must "
           "be the same",
           path, module->rank, module->scale, rank_, scale_);
    adapter_ = &adapter;
    rank_ = module->rank;
    scale_ = module->scale;
  }
  if (!has_adapter()) return;
  const Shape experts{static_cast<std::int64_t>(a.size())};
  Context& context = recording_.batch().context();
  a_offsets_ = context.upload<std::uint32_t>(experts, DType::u32, a, MemoryTag::adapters);
  bt_offsets_ = context.upload<std::uint32_t>(experts, DType::u32, bt, MemoryTag::adapters);
}

Tensor AdaptedExperts::record_forward(const Tensor& x, ExpertRows rows, const ExpertPlan& plan) {
  Batch& batch = recording_.batch();
  const Tensor y = recording_.activation({plan.slot_count(), shape_[0]}, "output of experts");
  ExpertLowRank term;
  if (has_adapter()) {
    const Tensor& flat = adapter_->parameters();
    s_ = recording_.temporary({plan.slot_count(), rank_}, "s of experts");
    record_grouped_gemm(batch, s_, x, rows, {flat, a_offsets_, {rank_, shape_[1]}}, plan);
    term = {.s = s_, .u = flat, .offsets = bt_offsets_, .scale = scale_};
  }
  record_grouped_gemm(batch, y, x, rows, {linears_.w}, plan, term);
  return y;
}

void AdaptedExperts::record_backward(const Tensor& dx, const Tensor& dy, const ExpertPlan& plan,
                                     Accumulate accumulate) {
  Batch& batch = recording_.batch();
  ExpertLowRank term;
  if (has_adapter()) {
    const Tensor& flat = adapter_->parameters();
    record_grouped_gradient(batch, {adapter_->flat_gradients(), bt_offsets_, scale_}, s_, dy,
                            ExpertRows::of_slots, plan);
    ds_ = recording_.temporary(s_.shape(), "ds of experts");
    record_grouped_gemm(batch, ds_, dy, ExpertRows::of_slots,
                        {flat, bt_offsets_, {rank_, shape_[0]}}, plan, {}, scale_);
    term = {.s = ds_, .u = flat, .offsets = a_offsets_};
  }
  if (dx.empty()) return;
  record_grouped_gemm_backward(batch, dx, dy, {linears_.w}, plan, accumulate, term);
}

void AdaptedExperts::record_da(const Tensor& x, ExpertRows rows, const ExpertPlan& plan) {
  if (!has_adapter()) return;
  record_grouped_gradient(recording_.batch(), {adapter_->flat_gradients(), a_offsets_}, ds_, x,
                          rows, plan);
}

}  // namespace clora
