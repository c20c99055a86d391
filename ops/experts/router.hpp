// router: which experts compute each row, and in which order the products over experts process the
// rows (docs/decisions/experts.md).
//
//   p = softmax(logits [T, X])                 X experts
//   ids [T, K] = the experts of the K largest logits of a row, in descending order, the lower
//   number
//                first among equals
//   weights [T, K] = p of them, or p / their sum
//
// A plan is computed on the device for any outcome: an entry is a row and one of its K experts,
// with the number row * K + place. Entries are sorted by their experts and get slots; a slot
// without an entry is unused. Slots of an expert begin at a multiple of `tile`, so a tile of slots
// has one expert. Deterministic: entries of an expert keep their order.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// On the device, all i32.
struct ExpertPlan {
  Tensor entries;       // [S]: the entry of each slot, or -1
  Tensor slots;         // [T, K]: the slot of each entry
  Tensor tile_experts;  // [S / tile], or -1: all slots of the tile are unused
  Tensor counts;        // [X]: entries of each expert
  Tensor begins;        // [X + 1]: the first slot of each expert, and the one after the last
  Tensor active;        // [min(X, T K)]: the experts that have entries, in order, then -1
  std::int64_t tile = 0;

  std::int64_t slot_count() const { return entries.shape()[0]; }    // S
  std::int64_t rows() const { return slots.shape()[0]; }            // T
  std::int64_t experts_of_row() const { return slots.shape()[1]; }  // K
  std::int64_t experts() const { return counts.shape()[0]; }        // X
};

struct Routing {
  Tensor ids;      // [T, K] i32
  Tensor weights;  // [T, K] f32
  ExpertPlan plan;
};

// The tile of plans with few entries for each expert: a group of a kernel for few rows owns one.
inline constexpr std::int64_t kFewRowsTile = 4;

struct RoutingSize {
  std::int64_t rows = 0;     // T
  std::int64_t experts = 0;  // X
  std::int64_t used = 0;     // K, at most X
};
// The tensors of a routing by the caller's allocator, such as Batch::temporary(). S is enough for
// any outcome.
using AllocateTensor = std::function<Tensor(Shape, DType, std::string_view name)>;
Routing make_routing(const RoutingSize& size, const AllocateTensor& allocate);

enum class RouterWeights {
  probabilities,  // of the softmax
  normalised,     // divided by their sum in each row
};

// Overwrites all tensors of `routing` from logits [T, X] f32.
void record_router(Batch& batch, const Routing& routing, const Tensor& logits,
                   RouterWeights weights);
// dlogits [T, X] = the gradient of logits from that of the weights, dweights [T, K]; overwritten.
// REQUIRES: routing is that of the forward.
void record_router_backward(Batch& batch, const Tensor& dlogits, const Tensor& logits,
                            const Routing& routing, const Tensor& dweights, RouterWeights weights);

Cost router_cost(const RoutingSize& size);

}  // namespace clora
