// LayerLoader: the layers of a model on the device, block by block, as the model's BlockSpecs
// describe them. Private to model/transformer; must not outlive its arguments. Threads and errors:
// those of WeightLoader.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>

#include "clora/model/transformer/language_model.hpp"
#include "model/weights/weight_loader.hpp"

namespace clora {

class LayerLoader {
 public:
  // wanted: as WeightLoader's.
  LayerLoader(Context& context, const WeightFiles& files, std::span<const WeightView> wanted,
              const LoadOptions& options)
      : tensors_(context, files, wanted, options.progress), options_(options) {}

  WeightLoader& tensors() noexcept { return tensors_; }

  // The embeddings of positions, each with that of the first segment: [P, D] f32, or empty.
  Tensor position_embeddings();
  // [H, 2 max_positions - 1] f32 (model/transformer/position_bias.hpp), or empty.
  Tensor position_bias();
  NormWeights embedding_norm();
  // Block `layer`. Linear layers and caches are numbered in the order of loading.
  BlockWeights block(std::size_t layer);
  // Counts the linear layers of a block that is not loaded.
  void skip(const BlockSpec& block);
  // Also multiplied by the scale of the logits, which are linear in it.
  NormWeights final_norm();

 private:
  NormWeights norm(const NormSpec& spec, float scale = 1);
  NormWeights norm(const std::optional<NormSpec>& spec);
  Tensor parameter(const ParameterSpec& spec);
  Tensor taps(const ParameterSpec& spec);
  LinearLayer linear(const LinearSpec& spec);
  // The joined layer alone if there is one.
  std::vector<LinearLayer> linears(const std::optional<LinearSpec>& joined,
                                   std::initializer_list<const LinearSpec*> separate);
  StackedLinears stacked_linears(const std::vector<LinearSpec>& experts);
  AttentionWeights load(const AttentionLayerSpec& spec);
  FeedForwardWeights load(const FeedForwardLayerSpec& spec);
  MlpWeights load(const MlpLayerSpec& spec);
  ShortConvWeights load(const ShortConvLayerSpec& spec);
  DeltaNetWeights load(const DeltaNetLayerSpec& spec);
  ExpertsWeights load(const ExpertsLayerSpec& spec);

  WeightLoader tensors_;
  const LoadOptions& options_;
  std::string prefix_;  // of the block's names
  std::uint32_t linears_ = 0;
  std::size_t caches_ = 0;
};

}  // namespace clora
