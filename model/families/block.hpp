// One transformer block, recorded: the forward, and the hand-written backward.
//
//   h1 = rms_norm(x)
//   q, k, v = linears(h1); q, k normalised per head if the model does so; q, k rotated
//   mid = x + o(attention(q, k, v))
//   h2 = rms_norm(mid)
//   y  = mid + down(swiglu(gate(h2), up(h2)))
//
// Tensors that products read have the Context's activation_type(): h1, h2, q, k, v, attention's
// output, gate, up and their product, and the gradients of all of these except h1 and h2. The
// residual stream (x, mid, y) and its gradient are f32.
//
// The backward recomputes h1, h2 and the product of swiglu from what is saved, in the passes that
// compute their gradients: saving them would cost a third of the memory of a step.
#pragma once

#include "clora/model/families/language_model.hpp"
#include "clora/ops/rowwise/rope.hpp"

namespace clora {

// Per-row inputs of a step, on the device, each [T] i32 (model/data/packing.hpp).
struct RowInputs {
  Tensor positions, first, last;
  Tensor order = {};        // record_attention_order(), shared by several blocks
  double keys_per_row = 0;  // as in AttentionInputs
};

// Everything a block needs except its activations. A value type; copies share the tensors.
struct Block {
  const ModelConfig* config = nullptr;
  const BlockWeights* weights = nullptr;
  PerProjection<LoraWeights> loras;
  Tensor rope_table;
  RowInputs rows;
};

// Returns the block of a layer with its matrices of `adapter` (null: none), without dropout; the
// caller sets rope_table and rows. bf16_parameters: as in Adapter::weights().
Block block_of(const LanguageModel& model, const Adapter* adapter, std::int64_t layer,
               const Tensor& bf16_parameters = {});

// Keys and values of all earlier positions, each [S, G, E].
struct CacheTensors {
  Tensor keys, values;
};

// What the backward needs from the forward.
struct BlockActivations {
  Tensor x;                             // [T, D], the input
  Tensor q_before_norm, k_before_norm;  // [T, H, E], [T, G, E], if the model has head norms
  Tensor q, k, v;                       // as attention reads them
  Tensor attention;                     // [T, H, E]
  Tensor log_sum_exp;                   // [T, H]
  Tensor mid;                           // [T, D]
  Tensor gate, up;                      // [T, F]; bf16 if only bf16 copies are saved
  PerProjection<Tensor> s;              // [T, R], if there is an adapter
};

// Whether a backward follows: if so, the largest saved activations are stored as bf16, provided
// that products round their operands anyway.
enum class Save { nothing, for_backward };

// y [T, D] = block(x [T, D]); y must not alias x. Each row attends to the rows given by rows.first
// and rows.last; all tensors except y are temporaries of the batch, held by the returned value.
BlockActivations record_block(Batch& batch, const Tensor& y, const Tensor& x, const Block& block,
                              Save save = Save::nothing);

// As record_block(), with keys and values appended to the cache at rows.positions and read from it.
void record_block_with_cache(Batch& batch, const Tensor& y, const Tensor& x, const Block& block,
                             const CacheTensors& cache);

// The gradient of the residual stream.
struct StreamGradient {
  Tensor d;     // [T, D] f32
  Tensor bf16;  // the same in bf16, as operand of products; empty if activations are f32
  const Tensor& for_products() const { return bf16.empty() ? d : bf16; }
};

// Allocates the memory; after d is computed, record_stream_bf16() fills the bf16 copy.
StreamGradient stream_gradient(Batch& batch, Shape shape);
void record_stream_bf16(Batch& batch, const StreamGradient& gradient);

// dy becomes the gradient of x, in place. Adapter gradients accumulate (+=); the last of them are
// complete when `deferred` is flushed. wants_dx false: no lower block has an adapter, and dy's
// contents are undefined afterwards.
void record_block_backward(Batch& batch, const StreamGradient& dy, const BlockActivations& saved,
                           const Block& block, const PerProjection<LoraGradients>& gradients,
                           DeferredGradients& deferred, bool wants_dx);

}  // namespace clora
