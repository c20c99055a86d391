// AdapterStacks: the matrices of several adapters on the device, as passes read them whose rows
// have different adapters (LoraWeights::row_groups): for each adapted linear layer of a model one
// stack with a slot for each adapter.
//
// A slot has matrices of the same rank in all layers: where an adapter has fewer, or none, the rest
// is zeros. The scale of an adapter is part of its bt. All elements are finite at any time. Owns
// its tensors; must not outlive the model. Threads: those of the model's Context.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/transformer/language_model.hpp"

namespace clora {

// A range of a slot's ranks, and what they have in one layer: matrices on the host, of as many rows
// or fewer; zeros follow. b is transposed, as on the device.
struct StackedFactors {
  std::int64_t rank = 0;
  std::span<const float> a = {};   // [rows, K]
  std::span<const float> bt = {};  // [rows, N], with all scales
  // The same in bf16, if AdapterStacks::has_copies().
  std::span<const std::uint16_t> a_bf16 = {}, bt_bf16 = {};
};

class AdapterStacks {
 public:
  // Whether products or decoding of a Context read copies in bf16.
  static bool has_copies(const Context& context);

  // No memory is allocated yet. REQUIRES: slots and max_rank are at least 1.
  AdapterStacks(LanguageModel& model, std::int64_t slots, std::int64_t max_rank);

  std::int64_t slots() const noexcept { return slots_; }
  std::int64_t max_rank() const noexcept { return max_rank_; }

  // Allocates the stacks of layers that have none yet, with zeros. If there are such, passes that
  // were recorded before do not read them: generation() changes. Errors: out_of_memory, before any
  // allocation, with the size that they need; invalid_argument if the model has no such layer.
  void add_layers(std::span<const std::string> paths);
  // Counts the calls of add_layers() that allocated stacks.
  std::uint64_t generation() const noexcept { return generation_; }

  // Overwrites ranks of a slot in every layer that has a stack, with the ranges that
  // factors_of(path) returns, in order from the first rank on. Waits. Commands that were submitted
  // before have read the slot. REQUIRES: the ranges have max_rank() ranks at most, as many in each
  // layer; every layer of the adapter has a stack.
  using FactorsOf = std::function<std::vector<StackedFactors>(std::string_view path)>;
  void write(std::int64_t slot, const FactorsOf& factors_of);

  // Views for the op; empty if the layer has no stack. row_groups: [T, 4], row_group_table(), whose
  // adapters are slots.
  LoraWeights weights(std::string_view path, const Tensor& row_groups) const;

  // On the device.
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct Stack {
    Tensor a, bt;                      // [slots, max_rank, K] and [slots, max_rank, N], f32
    Tensor a_bf16 = {}, bt_bf16 = {};  // copies, if products read them
  };
  std::size_t bytes_of(const Shape& w) const;
  Tensor zeros(std::int64_t width, DType type);
  void add_layer(const std::string& path, const Shape& w);
  // Writes rows from `row` on of all slots' rows, and zeros after them up to `rank`.
  void write_rows(const Tensor& stack, std::int64_t row, std::int64_t rank,
                  std::span<const std::byte> rows);

  LanguageModel& model_;
  std::int64_t slots_, max_rank_;
  bool has_copies_;
  std::map<std::string, Stack, std::less<>> stacks_;  // by path
  std::uint64_t generation_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace clora
