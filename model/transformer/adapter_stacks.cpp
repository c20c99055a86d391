#include "model/transformer/adapter_stacks.hpp"

#include <algorithm>

#include "runtime/fail.hpp"
#include "runtime/memory/half.hpp"

namespace clora {
namespace {

std::vector<std::uint16_t> as_bf16(std::span<const float> values) {
  std::vector<std::uint16_t> halves(values.size());
  std::ranges::transform(values, halves.begin(), float_to_bf16);
  return halves;
}

}  // namespace

AdapterStacks::AdapterStacks(LanguageModel& model, std::int64_t slots, std::int64_t max_rank)
    : model_(model),
      slots_(slots),
      max_rank_(max_rank),
      has_copies_(reads_bf16_adapter(model.context())) {
  require(slots >= 1 && max_rank >= 1 && max_rank <= Adapter::kMaxRank,
          "adapter stacks: at least one adapter of rank 1 to {} is required, got {} of rank {}",
          Adapter::kMaxRank, slots, max_rank);
}

std::size_t AdapterStacks::bytes_of(const Shape& w) const {
  const auto elements = static_cast<std::size_t>(slots_ * max_rank_ * (w[0] + w[1]));
  return elements * (sizeof(float) + (has_copies_ ? sizeof(std::uint16_t) : 0));
}

void AdapterStacks::add_layers(std::span<const std::string> paths) {
  std::map<std::string, Shape> layers;
  std::size_t needed = 0;
  for (const std::string& path : paths) {
    const Shape w = model_.linear(path).weights.w.shape();
    if (stacks_.contains(path) || !layers.emplace(path, w).second) continue;
    needed += bytes_of(w);
  }
  if (layers.empty()) return;
  const MemoryStatistics pool = model_.context().pool().statistics();
  if (needed > pool.free_bytes()) {
    fail(ErrorCode::out_of_memory,
         "adapter stacks: {} adapters of rank {} in {} more layers need {} MiB, '{}' has {} MiB "
         "free of {} MiB; use fewer adapters at once or a lower maximum rank",
         slots_, max_rank_, layers.size(), needed >> 20U, model_.context().device().name,
         pool.free_bytes() >> 20U, pool.limit_bytes >> 20U);
  }
  ++generation_;
  for (const auto& [path, w] : layers) add_layer(path, w);
}

Tensor AdapterStacks::zeros(std::int64_t width, DType type) {
  const Shape shape{slots_, max_rank_, width};
  const std::vector<std::byte> bytes(
      clora::bytes_of(type, static_cast<std::size_t>(shape.elements())));
  return model_.context().upload<std::byte>(shape, type, bytes, MemoryTag::adapters);
}

void AdapterStacks::add_layer(const std::string& path, const Shape& w) {
  Stack stack{.a = zeros(w[1], DType::f32), .bt = zeros(w[0], DType::f32)};
  if (has_copies_) {
    stack.a_bf16 = zeros(w[1], DType::bf16);
    stack.bt_bf16 = zeros(w[0], DType::bf16);
  }
  bytes_ += bytes_of(w);
  stacks_.emplace(path, std::move(stack));
}

void AdapterStacks::write(std::int64_t slot, std::int64_t rank, const FactorsOf& factors_of) {
  require(slot >= 0 && slot < slots_ && rank >= 1 && rank <= max_rank_,
          "adapter stacks: slot and rank must be below {} and from 1 to {}, got {} and {}", slots_,
          max_rank_, slot, rank);
  for (const auto& [path, stack] : stacks_) {
    StackedFactors factors = factors_of(path);
    write(stack.a, stack.a_bf16, slot, rank, std::move(factors.a));
    write(stack.bt, stack.bt_bf16, slot, rank, std::move(factors.bt));
  }
}

// rows: the first ones of the slot; zeros follow, up to `rank`.
void AdapterStacks::write(const Tensor& stack, const Tensor& copy, std::int64_t slot,
                          std::int64_t rank, std::vector<float> rows) {
  const std::int64_t width = stack.shape()[2];
  const auto elements = static_cast<std::size_t>(rank * width);
  require(rows.size() <= elements, "adapter stacks: {} ranks of {} elements at most, got {} in all",
          rank, width, rows.size());
  rows.resize(elements);
  Context& context = model_.context();
  const auto slot_of = [&](const Tensor& t) {
    return t.reshape({slots_ * max_rank_, width}).rows(slot * max_rank_, rank);
  };
  context.write(slot_of(stack), std::as_bytes(std::span(rows)));
  if (copy.empty()) return;
  const std::vector<std::uint16_t> halves = as_bf16(rows);
  context.write(slot_of(copy), std::as_bytes(std::span(halves)));
}

LoraWeights AdapterStacks::weights(std::string_view path, const Tensor& row_groups) const {
  const auto at = stacks_.find(path);
  if (at == stacks_.end()) return {};
  const auto& [a, bt, a_bf16, bt_bf16] = at->second;
  return {.a = a, .bt = bt, .a_bf16 = a_bf16, .bt_bf16 = bt_bf16, .row_groups = row_groups};
}

}  // namespace clora
