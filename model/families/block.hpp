// One transformer block, recorded: the forward, and next to it the backward written by hand.
//
//   h1 = rms_norm(x)
//   q, k, v = linears(h1); q, k normed per head where the model does; q, k rotated
//   mid = x + o(attention(q, k, v))
//   h2 = rms_norm(mid)
//   y  = mid + down(swiglu(gate(h2), up(h2)))
//
// What products read is of the Context's activation_type(): h1, h2, q, k, v, attention's output,
// gate, up and their product, and the gradients of all but h1 and h2. The residual stream (x, mid,
// y) and its gradient are f32.
//
// The backward recomputes h1, h2 and the product of swiglu from what is saved, in the passes that
// make gradients of the same: saving them would cost a third of the memory of a step.
#pragma once

#include "model/families/language_model.hpp"
#include "ops/rope.hpp"

namespace clora {

// Per-row inputs of a step, on the device, each [T] i32 (model/data/packing.hpp).
struct RowInputs {
  Tensor positions, first, last;
  Tensor order = {};        // record_attention_order(), where many blocks share it
  double keys_per_row = 0;  // as AttentionInputs has it
};

// Everything a block needs beside its activations. A value; tensors are shared.
struct Block {
  const ModelConfig* config = nullptr;
  const BlockWeights* weights = nullptr;
  PerProjection<LoraWeights> loras;
  Tensor rope_table;
  RowInputs rows;
};

// The block of a layer with its matrices of `adapter` (null: none), without dropout; rope_table and
// rows are left to the caller. bf16_parameters: as Adapter::weights() takes it.
Block block_of(const LanguageModel& model, const Adapter* adapter, std::int64_t layer,
               const Tensor& bf16_parameters = {});

// Where keys and values of all earlier positions lie, each [S, G, E].
struct CacheTensors {
  Tensor keys, values;
};

// What the backward needs of the forward.
struct BlockActivations {
  Tensor x;                             // [T, D], the input
  Tensor q_before_norm, k_before_norm;  // [T, H, E], [T, G, E], where the model norms heads
  Tensor q, k, v;                       // as attention saw them
  Tensor attention;                     // [T, H, E]
  Tensor log_sum_exp;                   // [T, H]
  Tensor mid;                           // [T, D]
  Tensor gate, up;                      // [T, F]; bf16 where only such copies are saved
  PerProjection<Tensor> s;              // [T, R], where there is an adapter
};

// Whether a backward follows: then the largest of what it needs is saved as bf16 where products
// round their operands anyway.
enum class Save { nothing, for_backward };

// y [T, D] = block(x [T, D]); y must not be x. Rows attend to one another as rows.first and
// rows.last say; all but y are temporaries of the batch, kept in the returned value.
BlockActivations record_block(Batch& batch, const Tensor& y, const Tensor& x, const Block& block,
                              Save save = Save::nothing);

// The same with keys and values appended to the cache at rows.positions and read from there.
void record_block_with_cache(Batch& batch, const Tensor& y, const Tensor& x, const Block& block,
                             const CacheTensors& cache);

// A gradient of the residual stream.
struct StreamGradient {
  Tensor d;     // [T, D] f32
  Tensor bf16;  // the same in bf16, for products to read; empty where activations are f32
  const Tensor& for_products() const { return bf16.empty() ? d : bf16; }
};

// Memory for one, in which d is to be made; record_stream_bf16() then makes the rest.
StreamGradient stream_gradient(Batch& batch, Shape shape);
void record_stream_bf16(Batch& batch, const StreamGradient& gradient);

// dy becomes the gradient of x, in place; adapter gradients accumulate, the last of them when
// `deferred` is flushed. wants_dx false: no adapter lies below, and dy's contents are undefined
// afterwards.
void record_block_backward(Batch& batch, const StreamGradient& dy, const BlockActivations& saved,
                           const Block& block, const PerProjection<LoraGradients>& gradients,
                           DeferredGradients& deferred, bool wants_dx);

}  // namespace clora
