// RecordedModel: one pass through a model in a batch. Training, evaluation, prompts and decoding
// record the same pass:
//
//   x = embeddings of the ids;  each sub-layer of each block adds to it (BlockSpec)
//   output = norm(the selected rows of x), or these rows themselves
//
// In a stage of a model that is split by layers, x begins as the stream of the stage before, and
// the output is all of x if a stage follows.
//
// The head follows in record_logits(), or with the loss, which is the caller's. The backward
// recomputes the norms' outputs in the passes that compute their gradients.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "model/transformer/sub_layer.hpp"

namespace clora {

struct ModelInputs {
  Tensor ids = {};  // [T] i32; REQUIRES: given in the first stage
  // [T, D] f32, the output of the stage before; REQUIRES: given in all other stages. Its contents
  // become its gradient in record_backward().
  Tensor stream = {};
  Tensor selected = {};  // [C] i32, the rows of the output; empty: all. Of the last stage
  // RecordingOptions::row_groups of the selected rows [C, 4]; REQUIRES: given for rows that are
  // selected, if there are stacks.
  Tensor selected_groups = {};
  // May record all blocks at once, as x becomes their output, and return true.
  std::function<bool(const Tensor& x)> fused_blocks = {};
  // Called with x [T, D] f32 and the number of blocks that have added to it: 0 for the embeddings.
  // Commands that read x are recorded here. REQUIRES: no fused_blocks.
  std::function<void(const Tensor& x, std::int64_t blocks)> after_blocks = {};
  DType output_type = DType::f32;
};

class RecordedModel {
 public:
  // Records the forward. The recording must outlive the object.
  RecordedModel(Recording& recording, const ModelInputs& inputs);

  // [C, D], or [T, D] f32 in a stage that is not the last.
  const Tensor& output() const noexcept { return output_; }
  // Records the logits of the output: the head's product, and the soft cap if the model has one.
  // Overwrites logits [C, V] f32.
  void record_logits(const Tensor& logits) const;

  // doutput: the gradient of the output, overwritten. place [T] i32: the row's index among the
  // selected ones, or -1; empty if all rows are. Gradients of all adapters of the held blocks
  // accumulate. ModelInputs::stream becomes its gradient. REQUIRES: the pass trains.
  void record_backward(const Tensor& doutput, const Tensor& place);
  // The gradients of each block, in the order of the backward, with the batch's marks if
  // RecordingOptions::marks_gradients is set. All other gradients are final at the end.
  const std::vector<GradientPart>& gradient_parts() const noexcept { return gradient_parts_; }

 private:
  // x = sum_norm(x + multiplier post_norm(f(norm(x)))), with what its backward needs, as
  // Recording::save() returned it.
  struct ResidualLayer {
    const SubLayerWeights* weights;
    std::unique_ptr<SubLayer> f;
    AdaptedNorm norm, post_norm, sum_norm;
    Tensor x = {};       // [T, D], the input
    Tensor output = {};  // [T, D], f's; empty unless a norm or a factor follows
    Tensor sum = {};     // [T, D], before sum_norm; or empty

    // Whether f alone writes the layer's output.
    bool is_plain() const;
    // Whether it has parameters that are trained.
    bool is_trained() const;
  };
  struct Block {
    std::vector<ResidualLayer> layers;
    Tensor input = {};  // [T, D], if it is kept or was recomputed
    GradientRange gradients = {};
    bool is_trained() const;
  };
  struct NormedInput {
    const Tensor& x;
    const AdaptedNorm& norm;
  };
  // The gradient of the residual stream.
  struct StreamGradient {
    Tensor d;     // [T, D] f32
    Tensor bf16;  // the same in bf16, as operand of products; empty if activations are f32
    const Tensor& for_products() const { return bf16.empty() ? d : bf16; }
  };

  // [T, D]
  Tensor record_embeddings(const Tensor& ids);
  Tensor selected(const Tensor& x, const Tensor& rows);
  float embedding_scale() const;
  // The adapter of rows of their own if a stack has one, or that of all.
  LoraWeights embedding_adapter() const;
  LoraWeights head_adapter() const;
  void add_adapter_of_embeddings(const Tensor& x, const Tensor& ids);
  void record_embeddings_backward(const Tensor& dx);
  // What an encoder adds to its embeddings, and their norm.
  Tensor with_positions(const Tensor& x);
  Tensor record_blocks(Tensor x, const ModelInputs& inputs);
  // Returns the block's output.
  Tensor record_block(Block& block, const Tensor& x);
  // The same for one layer.
  Tensor record_layer(ResidualLayer& layer, const Tensor& x);
  // y = x + multiplier post_norm(f(h)).
  void record_sum(ResidualLayer& layer, const Tensor& y, const Tensor& x, const ProductInput& h);
  std::size_t segment_of(std::size_t block) const;
  bool keeps_input(std::size_t block) const;
  // Gradient checkpointing: records the forward again, until all that the block's backward reads is
  // there.
  void recompute(std::size_t block);
  void recompute_inputs(std::size_t last);
  void recompute_layers(Block& block);
  StreamGradient record_output_backward(const Tensor& doutput, const Tensor& place);
  // The gradient of f's output from that of the layer's.
  Tensor gradient_of_output(const ResidualLayer& layer, const StreamGradient& dy);
  // dy becomes the gradient of the layer's input if wants_dx.
  void record_layer_backward(const ResidualLayer& layer, StreamGradient& dy, bool wants_dx);
  void record_block_backward(Block& block, StreamGradient& dx, bool is_lowest);
  // Adds the block's gradients to gradient_parts(), and marks those of the blocks above, which are
  // final: the gradients that they had deferred were recorded with this block's.
  void note_gradients(const Block& block);
  // dy += the gradient through the norm of dh.
  void add_gradient_of_input(StreamGradient& dy, const Tensor& dh, const NormedInput& input);
  void begin_bf16(StreamGradient& dy);
  void round_gradient(StreamGradient& dy);
  Tensor rows_of_stream(std::int64_t rows, std::string_view name);
  // Of a saved tensor of the stream.
  Tensor restored(const Tensor& saved, DType type);

  Recording& recording_;
  AdaptedNorm embedding_norm_, final_norm_;
  Tensor stream_;       // ModelInputs::stream
  Tensor embedded_;     // [T, D], before the norm of embeddings, if that is trained
  Tensor dembeddings_;  // the gradient of embeddings that the pass trains in full, or empty
  std::vector<Block> blocks_;
  std::vector<GradientPart> gradient_parts_;
  Tensor selected_groups_;            // of output_; or empty
  Tensor adapted_ids_, embedding_s_;  // [T] and [T, R], if the embeddings have an adapter
  Tensor selected_rows_;              // [C, D], before the final norm
  Tensor output_;
};

}  // namespace clora
