#include "clora/model/families/block.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <tuple>
#include <utility>
#include <vector>

#include "clora/ops/attention/attention.hpp"
#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"
#include "clora/ops/rowwise/swiglu.hpp"
#include "clora/runtime/error.hpp"
#include "ops/activations.hpp"

namespace clora {
namespace {

// The saved forward and the destinations of the adapter gradients, for a block's backward.
struct BackwardInputs {
  const BlockActivations& saved;
  const PerProjection<LoraGradients>& gradients;
  DeferredGradients& deferred;
};

// Records the ops of one block into one batch and keeps the shapes that they share.
class BlockRecorder {
 public:
  BlockRecorder(Batch& batch, const Block& block, std::int64_t rows, DType type)
      : batch_(batch), block_(block), config_(*block.config), rows_(rows), type_(type) {}

  Tensor temporary(Shape shape, std::string_view name) {
    return batch_.temporary(shape, DType::f32, name);
  }
  // A temporary that products read, or write for other ops.
  Tensor activation(Shape shape, std::string_view name) {
    return batch_.temporary(shape, type_, name);
  }
  Tensor like(const Tensor& tensor, std::string_view name) {
    return batch_.temporary(tensor.shape(), tensor.type(), name);
  }
  Tensor norm(const Tensor& x, const Tensor& w, std::string_view name) {
    const Tensor y = activation(x.shape(), name);
    record_rms_norm(batch_, y, x, w, epsilon());
    return y;
  }

  // Returns y [T, N] of linears of the block that share the input x; their s are stored in `s`.
  template <std::size_t count>
  std::array<Tensor, count> linears(std::array<Projection, count> which, const Tensor& x,
                                    PerProjection<Tensor>& s) {
    std::vector<LoraOutput> outputs;
    for (const Projection p : which) {
      const LinearWeights& weights = block_.weights->linears[p];
      const LoraWeights& lora = block_.loras[p];
      if (!lora.empty()) s[p] = activation({rows_, lora.a.shape()[0]}, "s");
      outputs.push_back(
          {activation({rows_, weights.w.shape()[0]}, name_of(p)), s[p], weights, lora});
    }
    record_lora_linears(batch_, x, outputs);
    std::array<Tensor, count> y;
    std::ranges::transform(outputs, y.begin(), &LoraOutput::y);
    return y;
  }
  void linear_into(Projection p, const Tensor& y, const Tensor& x, const Tensor& residual,
                   PerProjection<Tensor>& s) {
    const LoraWeights& lora = block_.loras[p];
    if (!lora.empty()) s[p] = activation({rows_, lora.a.shape()[0]}, "s");
    record_lora_linear(batch_, y, s[p], x, block_.weights->linears[p], lora, residual);
  }

  Tensor heads(const Tensor& x, std::int64_t heads) const {
    return x.reshape({rows_, heads, config_.head_dim});
  }
  Tensor flat(const Tensor& x) const { return x.reshape({rows_, x.elements() / rows_}); }

  // Normalises each head of x; no-op if w is empty (the model has no head norms).
  Tensor head_norm(const Tensor& x, const Tensor& w, std::string_view name) {
    if (w.empty()) return x;
    const Shape shape = x.shape();
    const Tensor each_head = x.reshape({x.elements() / config_.head_dim, config_.head_dim});
    return norm(each_head, w, name).reshape(shape);
  }
  void rotate(const Tensor& queries, const Tensor& keys, RopeDirection direction) {
    record_rope_of_two(batch_, {queries, queries}, {keys, keys}, block_.rows.positions,
                       block_.rope_table, config_.rope_layout, direction);
  }
  // d = the gradients of the inputs of rope, from those that attention computed (`computed`, may
  // alias d).
  void rotate_back(const AttentionGradients& d, const AttentionGradients& computed) {
    if (computed.dk.shape() == d.dk.shape()) return rotate(d.dq, d.dk, RopeDirection::backward);
    const RopeOfParts tensors{.queries = d.dq,
                              .keys = d.dk,
                              .values = d.dv,
                              .key_parts = computed.dk,
                              .value_parts = computed.dv};
    record_rope_of_parts(batch_, tensors, block_.rows.positions, block_.rope_table,
                         config_.rope_layout, RopeDirection::backward);
  }

  AttentionInputs attention_inputs(const Tensor& q, const Tensor& k, const Tensor& v) const {
    return {.q = q,
            .k = k,
            .v = v,
            .first = block_.rows.first,
            .last = block_.rows.last,
            .scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim)),
            .order = block_.rows.order,
            .keys_per_row = block_.rows.keys_per_row};
  }

  // Computes q, k and v as attention reads them.
  void project(BlockActivations& a) {
    const BlockWeights& w = *block_.weights;
    const Tensor h1 = norm(a.x, w.input_norm, "h1");
    const auto [q, k, v] = linears(std::array{kQ, kK, kV}, h1, a.s);
    a.q_before_norm = heads(q, config_.heads);
    a.k_before_norm = heads(k, config_.kv_heads);
    a.v = heads(v, config_.kv_heads);
    a.q = head_norm(a.q_before_norm, w.q_norm, "q normed");
    a.k = head_norm(a.k_before_norm, w.k_norm, "k normed");
    rotate(a.q, a.k, RopeDirection::forward);
  }

  // Computes the block's output from attention's output.
  void finish(BlockActivations& a, const Tensor& y, Save save = Save::nothing) {
    a.mid = like(a.x, "mid");
    linear_into(kO, a.mid, flat(a.attention), a.x, a.s);
    const Tensor h2 = norm(a.mid, block_.weights->post_attention_norm, "h2");
    std::tie(a.gate, a.up) = std::tuple_cat(linears(std::array{kGate, kUp}, h2, a.s));
    const Tensor product = activation(a.gate.shape(), "swiglu");
    const SwigluSaved saved = bf16_copies(a, save);
    record_swiglu(batch_, product, a.gate, a.up, saved);
    if (!saved.gate.empty()) std::tie(a.gate, a.up) = std::tie(saved.gate, saved.up);
    linear_into(kDown, y, product, a.mid, a.s);
  }

  // Gradients of the outputs of the block's linears, by projection.
  using OutputGradients = std::initializer_list<std::pair<Projection, Tensor>>;

  // dx = the gradient through linears with the same input. Returns their pending gradients (da).
  std::vector<PendingGradient> linears_dx(const Tensor& dx, OutputGradients dys,
                                          const BackwardInputs& of) {
    std::vector<LoraBranch> branches;
    for (const auto& [p, dy] : dys) {
      branches.push_back(
          {of.gradients[p], dy, of.saved.s[p], block_.weights->linears[p], block_.loras[p]});
    }
    return record_lora_linears_dx(batch_, dx, branches, Accumulate::no, of.deferred);
  }

  // dy becomes the gradient of mid.
  void feed_forward_backward(const StreamGradient& dy, const BackwardInputs& of) {
    const BlockActivations& a = of.saved;
    const BlockWeights& w = *block_.weights;
    const auto like_gate = [&](std::string_view name) { return activation(a.gate.shape(), name); };
    const Tensor dproduct = like_gate("d swiglu");
    const auto pending_of_down = linears_dx(dproduct, {{kDown, dy.for_products()}}, of);
    const Tensor& product = dproduct;  // recomputed in place, after dproduct is read
    const Tensor dgate = like_gate("d gate"), dup = like_gate("d up");
    record_swiglu_backward(batch_, dgate, dup, dproduct, a.gate, a.up, product);
    record_lora_linears_da(batch_, product, pending_of_down, of.deferred);
    const Tensor dh2 = like(a.mid, "d h2"), h2 = activation(a.mid.shape(), "h2 recomputed");
    const auto pending = linears_dx(dh2, {{kGate, dgate}, {kUp, dup}}, of);
    norm_backward(dy, dh2, a.mid, w.post_attention_norm, h2);
    record_lora_linears_da(batch_, h2, pending, of.deferred);
  }

  // Returns the gradients of q, k and v as the linears output them.
  AttentionGradients attention_backward(const StreamGradient& dmid, const BackwardInputs& of) {
    const BlockActivations& a = of.saved;
    const Tensor dattention = like(a.attention, "d attention");
    const auto pending = linears_dx(flat(dattention), {{kO, dmid.for_products()}}, of);
    record_lora_linears_da(batch_, flat(a.attention), pending, of.deferred);
    AttentionGradients d{like(a.q, "dq"), like(a.k, "dk"), like(a.v, "dv")};
    const AttentionGradients computed = record_attention_backward_in_parts(
        batch_, d, dattention, a.attention, a.log_sum_exp, attention_inputs(a.q, a.k, a.v));
    rotate_back(d, computed);
    head_norm_backward(d.dq, a.q_before_norm, block_.weights->q_norm);
    head_norm_backward(d.dk, a.k_before_norm, block_.weights->k_norm);
    return d;
  }

  // dmid becomes the gradient of x if wants_dx.
  void projections_backward(const StreamGradient& dmid, const AttentionGradients& d,
                            const BackwardInputs& of, bool wants_dx) {
    const Tensor& x = of.saved.x;
    const Tensor& w = block_.weights->input_norm;
    const Tensor dh1 = wants_dx ? like(x, "d h1") : Tensor();
    const auto pending =
        linears_dx(dh1, {{kQ, flat(d.dq)}, {kK, flat(d.dk)}, {kV, flat(d.dv)}}, of);
    const Tensor h1 = activation(x.shape(), "h1 recomputed");
    if (wants_dx) {
      norm_backward(dmid, dh1, x, w, h1);
    } else {
      record_rms_norm(batch_, h1, x, w, epsilon());
    }
    record_lora_linears_da(batch_, h1, pending, of.deferred);
  }

 private:
  // dy becomes the gradient of x: the residual path plus the path through the norm. normed = the
  // norm's output, recomputed.
  void norm_backward(const StreamGradient& dy, const Tensor& dnormed, const Tensor& x,
                     const Tensor& w, const Tensor& normed) {
    record_rms_norm_backward(batch_, dy.d, dnormed, x, w, dy.d, epsilon(),
                             {.dx_bf16 = dy.bf16, .y = normed});
  }

  // Returns bf16 memory for the largest activations that the backward needs, if products round
  // their operands anyway. This saves a quarter of a step's memory.
  SwigluSaved bf16_copies(const BlockActivations& a, Save save) {
    const bool rounds = products_round_to_bf16(batch_.context());
    if (save == Save::nothing || !rounds || a.gate.type() == DType::bf16) return {};
    return {batch_.temporary(a.gate.shape(), DType::bf16, "saved gate"),
            batch_.temporary(a.up.shape(), DType::bf16, "saved up")};
  }
  float epsilon() const { return static_cast<float>(config_.rms_norm_epsilon); }

  void head_norm_backward(const Tensor& d, const Tensor& x, const Tensor& w) {
    if (w.empty()) return;
    const Shape each_head{x.elements() / config_.head_dim, config_.head_dim};
    const Tensor rows = d.reshape(each_head);
    record_rms_norm_backward(batch_, rows, rows, x.reshape(each_head), w, {}, epsilon());
  }

  Batch& batch_;
  const Block& block_;
  const ModelConfig& config_;
  std::int64_t rows_;
  DType type_;  // of activations
};

}  // namespace

Block block_of(const LanguageModel& model, const Adapter* adapter, std::int64_t layer,
               const Tensor& bf16_parameters) {
  Block block{.config = &model.config(),
              .weights = &model.blocks()[static_cast<std::size_t>(layer)],
              .loras = {},
              .rope_table = {},
              .rows = {}};
  for (std::size_t p = 0; p < kProjections && adapter != nullptr; ++p) {
    block.loras[p] = adapter->weights(path_of(layer, static_cast<Projection>(p)), bf16_parameters);
  }
  return block;
}

BlockActivations record_block(Batch& batch, const Tensor& y, const Tensor& x, const Block& block,
                              Save save) {
  BlockRecorder recorder(batch, block, x.shape()[0], batch.context().activation_type());
  BlockActivations a;
  a.x = x;
  recorder.project(a);
  a.attention = recorder.like(a.q, "attention");
  a.log_sum_exp = recorder.temporary({x.shape()[0], block.config->heads}, "log_sum_exp");
  record_attention(batch, a.attention, a.log_sum_exp, recorder.attention_inputs(a.q, a.k, a.v));
  recorder.finish(a, y, save);
  return a;
}

void record_block_with_cache(Batch& batch, const Tensor& y, const Tensor& x, const Block& block,
                             const CacheTensors& cache) {
  BlockRecorder recorder(batch, block, x.shape()[0], DType::f32);  // the type of the caches
  BlockActivations a;
  a.x = x;
  recorder.project(a);
  record_cache_append(batch, cache.keys, a.k, block.rows.positions);
  record_cache_append(batch, cache.values, a.v, block.rows.positions);
  a.attention = recorder.like(a.q, "attention");
  record_attention(batch, a.attention, {},
                   recorder.attention_inputs(a.q, cache.keys, cache.values));
  recorder.finish(a, y);
}

StreamGradient stream_gradient(Batch& batch, Shape shape) {
  const DType type = batch.context().activation_type();
  return {batch.temporary(shape, DType::f32, "dx"),
          type == DType::f32 ? Tensor() : batch.temporary(shape, type, "dx bf16")};
}

void record_stream_bf16(Batch& batch, const StreamGradient& gradient) {
  if (!gradient.bf16.empty()) record_cast_to_bf16(batch, gradient.bf16, gradient.d);
}

void record_block_backward(Batch& batch, const StreamGradient& dy, const BlockActivations& saved,
                           const Block& block, const PerProjection<LoraGradients>& gradients,
                           DeferredGradients& deferred, bool wants_dx) {
  BlockRecorder recorder(batch, block, saved.x.shape()[0], batch.context().activation_type());
  const BackwardInputs of{saved, gradients, deferred};
  recorder.feed_forward_backward(dy, of);
  const AttentionGradients d = recorder.attention_backward(dy, of);
  recorder.projections_backward(dy, d, of, wants_dx);
}

}  // namespace clora
