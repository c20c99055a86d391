// Recording: what the sub-layers of one recorded pass of a model share: the batch, the rows, the
// adapter, and tensors that follow from these, recorded when a sub-layer first asks for them.
//
// A pass is a training step, an evaluation, a chunk of a prompt, or a decoding step. It must not
// outlive the model, the adapter or the batch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "clora/model/transformer/column_scales.hpp"
#include "clora/model/transformer/gradient_parts.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "clora/model/transformer/memory_policy.hpp"
#include "clora/model/transformer/recorded_rows.hpp"
#include "clora/ops/experts/load_balance.hpp"
#include "clora/ops/gemm/product_input.hpp"
#include "clora/runtime/commands/batch.hpp"
#include "model/transformer/cache_places.hpp"
#include "model/transformer/norm.hpp"
#include "ops/lora_linear/dora_magnitudes.hpp"

namespace clora {

class AdapterStacks;

// Per-row inputs of a pass, on the device, each [T] i32 (model/data/packing.hpp).
struct RowInputs {
  Tensor positions, first, last;
  double keys_per_row = 0;  // as in AttentionInputs, without sliding windows
  // Of a pass whose documents have rows in common: first and last are [A], of rows of attention.
  // REQUIRES: layers that mix rows are attention, without a cache.
  SharedRows shared = {};
};

// What a sub-layer keeps of earlier positions (cache_shapes() of model/transformer/sub_layer.hpp):
// attention its keys and values, a layer with a state its state.
using CacheTensors = std::vector<Tensor>;

struct RecordingOptions {
  RowInputs rows = {};
  std::int64_t positions = 0;  // P: every position is below it
  DType type = DType::f32;     // of activations that products read
  const Adapter* adapter = nullptr;
  // Of the adapter, up to date in each replay; REQUIRES: given if it has magnitudes (DoRA).
  const ColumnScales* column_scales = nullptr;
  // The adapters of rows, and which rows have which: [T, 4], row_group_table()
  // (ops/gemm/epilogue.hpp) with the slots of the stacks. Or null and empty. A layer that has a
  // stack does not get `adapter`. REQUIRES: the pass does not train and has no tiles of
  // feed-forward rows.
  const AdapterStacks* stacks = nullptr;
  Tensor row_groups = {};
  // Of each sub-layer that has one, read and written; empty: rows depend on each other only.
  std::span<const CacheTensors> caches = {};
  CachePlaces places = {};  // REQUIRES: given if there are caches
  // A pass with a backward: activations are kept, and adapters have dropout and gradients.
  bool trains = false;
  Tensor seed_and_step = {};    // of dropout and noise; required if the pass trains
  Tensor embedding_noise = {};  // [T] f32: the largest noise of a row's embedding; empty: none
  // LoadBalance::scalars: the pass also computes the loss that balances the load of experts. Empty:
  // it does not. REQUIRES: if not, the pass trains.
  Tensor balance = {};
  // What a pass that trains keeps; otherwise only feed_forward_rows is used.
  MemoryPolicy policy = {};
  // Whether the backward marks the points at which the gradients of blocks are final
  // (RecordedModel::gradient_parts()).
  bool marks_gradients = false;
  // Whether the adapter is cast to bf16 once, rather than in each product, if products read bf16.
  bool casts_adapter = false;
};

// A linear layer of a pass, with its adapter if it has one.
struct AdaptedLinear {
  const LinearLayer* layer = nullptr;
  // Those of the layer or, where the adapter trains them in full, of the adapter; and then in a
  // pass that trains their gradients, and the ones [T, 1] that dbias is computed with.
  LinearWeights weights = {};
  Tensor dweight = {}, dbias = {};
  Tensor ones = {};
  LoraWeights lora = {};
  LoraGradients gradients = {};
  Tensor s = {};  // [T, R]: the first factor of its low-rank term, from the forward
  // Of DoRA in a pass that trains, else empty: magnitudes [N], their gradients, and what these read
  // of the forward (DoraOutput::f): the output, which must then stay as it is, or with dropout a
  // tensor of its own.
  Tensor magnitude = {}, dmagnitude = {};
  Tensor f = {};

  std::int64_t outputs() const { return weights.w.shape()[0]; }
  bool is_trained() const { return !lora.empty() || !dweight.empty() || !dbias.empty(); }
  bool is_decomposed() const { return !magnitude.empty(); }
  bool has_dropout() const { return lora.dropout.probability > 0; }
};

class Recording {
 public:
  Recording(LanguageModel& model, Batch& batch, const RecordingOptions& options);

  const LanguageModel& model() const noexcept { return model_; }
  Batch& batch() noexcept { return batch_; }
  std::int64_t rows() const noexcept { return rows_; }  // T
  const RowInputs& row_inputs() const noexcept { return options_.rows; }
  bool trains() const noexcept { return options_.trains; }
  DType type() const noexcept { return options_.type; }
  const Adapter* adapter() const noexcept { return options_.adapter; }  // null: none
  const Tensor& embedding_noise() const noexcept { return options_.embedding_noise; }
  const Tensor& seed_and_step() const noexcept { return options_.seed_and_step; }
  const AdapterStacks* stacks() const noexcept { return options_.stacks; }
  const Tensor& row_groups() const noexcept { return options_.row_groups; }
  bool marks_gradients() const noexcept { return options_.marks_gradients; }
  float epsilon() const { return static_cast<float>(model_.config().norm_epsilon); }
  // nullptr without a cache.
  const CacheTensors* cache(std::size_t index) const;
  const CachePlaces& places() const noexcept { return options_.places; }
  const MemoryPolicy& policy() const noexcept { return options_.policy; }
  // x as the policy keeps it for the backward: x itself, or a copy in fewer bits. save() is for
  // what the backward of a layer reads, which is not kept if there are checkpoints: it is then x
  // itself.
  Tensor save(const Tensor& x);
  Tensor save_checkpoint(const Tensor& x);
  // x again from what these returned. REQUIRES: shape and type are those of x.
  Tensor restore(const Tensor& saved, const Shape& shape, DType type);
  // While true, the forward of layers is recorded again for the backward.
  bool recomputes() const noexcept { return recomputes_; }
  void set_recomputes(bool recomputes) noexcept { recomputes_ = recomputes; }
  // The least part of the flat gradients with those of all adapted() layers since the last call.
  GradientRange take_adapted_gradients();
  // Adapter gradients that await a flush at the end of the backward.
  DeferredGradients& deferred() noexcept { return deferred_; }
  // Those of magnitudes, which await a flush at the end of a block's backward.
  DeferredMagnitudes& deferred_magnitudes() noexcept { return deferred_magnitudes_; }

  // f32
  Tensor temporary(Shape shape, std::string_view name);
  // A temporary that products read, or write for other ops.
  Tensor activation(Shape shape, std::string_view name);
  Tensor like(const Tensor& tensor, std::string_view name);
  // An activation: the norm of x; if there is none, x itself in the type of activations.
  Tensor norm(const Tensor& x, const NormWeights& weights, std::string_view name);
  // The same, but an rms_norm of a pass that does not train is computed by its first reader.
  ProductInput normed_input(const Tensor& x, const NormWeights& weights, std::string_view name);

  // Which rows a row attends to under a window, and the order of attention's tiles.
  struct KeyRanges {
    Tensor first, last, order;
    double keys_per_row = 0;
  };
  KeyRanges key_ranges(const AttentionLayerSpec& spec);
  // The same for the rows of prompts and their keys (CachePlaces).
  KeyRanges prompt_key_ranges(const AttentionLayerSpec& spec);
  Tensor rope_table(const RopeSpec& rope);      // of queries
  Tensor key_rope_table(const RopeSpec& rope);  // the same one without a temperature

  AdaptedLinear adapted(const LinearLayer& layer);
  AdaptedNorm adapted(const NormWeights& norm);

  // Records the load of the next layer of experts. Does nothing without RecordingOptions::balance.
  void add_load(const Tensor& logits, const Routing& routing);
  // loss += that of the layers so far; once, after the forward.
  void record_balance_loss(const Tensor& loss);
  // dlogits += the gradient of that loss in a layer.
  void record_balance_backward(const Tensor& dlogits, const Tensor& logits);

 private:
  enum class RowsOf { pass, prompts };
  struct Window {
    RowsOf of;
    std::int64_t window;
    Tensor first;
  };
  struct Order {
    RowsOf of;
    std::int64_t window, heads, head_dim;
    Tensor order;
  };
  KeyRanges key_ranges(const AttentionLayerSpec& spec, RowsOf of);
  // What kernels read of a tensor that the adapter trains in full: scale (it + offset).
  Tensor as_read(const Tensor& saved, float offset, float scale);
  // The tensors that the adapter trains in full in place of the layer's.
  void add_saved(AdaptedLinear& linear);
  // DoRA's tensors of an adapted layer.
  void add_magnitudes(AdaptedLinear& linear);
  void add_adapted(const LoraGradients& gradients);
  Tensor first_of(RowsOf of, std::int64_t window);
  Tensor order_of(RowsOf of, std::int64_t window, const KeyRanges& ranges,
                  const AttentionLayerSpec& spec);

  LanguageModel& model_;
  Batch& batch_;
  RecordingOptions options_;
  std::int64_t rows_;
  Tensor bf16_adapter_;
  Tensor ones_;  // [T, 1], if a bias of a linear layer is trained
  std::vector<Window> windows_;
  std::vector<Order> orders_;
  DeferredGradients deferred_;
  DeferredMagnitudes deferred_magnitudes_;
  std::optional<LoadBalance> load_;
  std::int64_t loaded_layers_ = 0;
  bool recomputes_ = false;
  GradientRange adapted_gradients_;
};

}  // namespace clora
