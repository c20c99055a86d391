#include "model/transformer/adapter_stacks.hpp"

#include "clora/ops/decode/decode_layers.hpp"
#include "model/transformer/adapted_ends.hpp"
#include "runtime/fail.hpp"

namespace clora {
AdapterStacks::AdapterStacks(LanguageModel& model, std::int64_t slots, std::int64_t max_rank)
    : model_(model), slots_(slots), max_rank_(max_rank), has_copies_(has_copies(model.context())) {
  require(slots >= 1 && max_rank >= 1 && max_rank <= Adapter::kMaxRank,
          "adapter stacks: at least one adapter of rank 1 to {} is required, got {} of rank {}",
          Adapter::kMaxRank, slots, max_rank);
}

bool AdapterStacks::has_copies(const Context& context) {
  return reads_bf16_adapter(context) || decodes_bf16_stacks(context);
}

std::size_t AdapterStacks::bytes_of(const Shape& w) const {
  const auto elements = static_cast<std::size_t>(slots_ * max_rank_ * (w[0] + w[1]));
  return elements * (sizeof(float) + (has_copies_ ? sizeof(std::uint16_t) : 0));
}

void AdapterStacks::add_layers(std::span<const std::string> paths) {
  std::map<std::string, Shape> layers;
  std::size_t needed = 0;
  for (const std::string& path : paths) {
    const Shape w = adapted_shape(model_, path);
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

void AdapterStacks::write(std::int64_t slot, const FactorsOf& factors_of) {
  require(slot >= 0 && slot < slots_, "adapter stacks: slot {} of {} does not exist", slot, slots_);
  for (const auto& [path, stack] : stacks_) {
    std::int64_t ranks = 0;
    for (const StackedFactors& of : factors_of(path)) {
      require(of.rank >= 0 && ranks + of.rank <= max_rank_,
              "adapter stacks: a slot has {} ranks, got {} for '{}'", max_rank_, ranks + of.rank,
              path);
      const std::int64_t row = slot * max_rank_ + ranks;
      write_rows(stack.a, row, of.rank, std::as_bytes(of.a));
      write_rows(stack.bt, row, of.rank, std::as_bytes(of.bt));
      if (has_copies_) write_rows(stack.a_bf16, row, of.rank, std::as_bytes(of.a_bf16));
      if (has_copies_) write_rows(stack.bt_bf16, row, of.rank, std::as_bytes(of.bt_bf16));
      ranks += of.rank;
    }
  }
}

void AdapterStacks::write_rows(const Tensor& stack, std::int64_t row, std::int64_t rank,
                               std::span<const std::byte> rows) {
  const std::int64_t width = stack.shape()[2];
  const std::size_t row_bytes = clora::bytes_of(stack.type(), static_cast<std::size_t>(width));
  const auto count = static_cast<std::int64_t>(rows.size() / row_bytes);
  require(rows.size() % row_bytes == 0 && count <= rank,
          "adapter stacks: at most {} rows of {} bytes are required, got {} bytes", rank, row_bytes,
          rows.size());
  const Tensor all = stack.reshape({slots_ * max_rank_, width});
  if (count > 0) model_.context().write(all.rows(row, count), rows);
  if (count == rank) return;
  const std::vector<std::byte> zeros(static_cast<std::size_t>(rank - count) * row_bytes);
  model_.context().write(all.rows(row + count, rank - count), zeros);
}

LoraWeights AdapterStacks::weights(std::string_view path, const Tensor& row_groups) const {
  const auto at = stacks_.find(path);
  if (at == stacks_.end()) return {};
  const auto& [a, bt, a_bf16, bt_bf16] = at->second;
  return {.a = a, .bt = bt, .a_bf16 = a_bf16, .bt_bf16 = bt_bf16, .row_groups = row_groups};
}

}  // namespace clora
