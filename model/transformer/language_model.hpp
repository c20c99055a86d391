// LanguageModel: the frozen weights of a transformer, decoder or encoder, on the device, in the
// storage types of their files, with the metadata that the recorded forward and backward need.
//
// It holds no adapter and no state of a run: several trainers and generators may share one model.
// Must not outlive its Context.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/configuration/block_range.hpp"
#include "clora/model/configuration/model_config.hpp"
#include "clora/model/transformer/layer_weights.hpp"
#include "clora/model/weights/weights.hpp"

namespace clora {

class LayerLoader;

struct LoadOptions {
  // Called with 0 before the first weight, then after each weight with the fraction of the bytes
  // that is loaded, up to 1. Returning false ends the load with Error(cancelled), and its memory is
  // released. Must not use the Context.
  std::function<bool(double fraction)> progress = {};
  // The longest context that the model will be used with, for ropes that depend on it (dynamic,
  // longrope). As in llama.cpp, it holds for all contexts of the model; 0: none is longer than the
  // model's original ones.
  std::int64_t context_length = 0;
  // The blocks that are loaded, of a stage of a model that is split by layers
  // (model/configuration/block_range.hpp); nullopt: all.
  std::optional<BlockRange> blocks = {};
};

class LanguageModel {
 public:
  // Makes every weight available on the device: streamed from the mapped files or, if the device
  // can read the mapping (Transfer::wrap; ContextConfig::wrap_files), left in it. A matrix larger
  // than the device's largest allocation is split (ops/quant/weight.hpp). The mapping lives
  // as long as the model. The behaviour is undefined if another program overwrites a file
  // in place, rather than replacing it.
  // Errors: out_of_memory, with the total size that the model needs; those of WeightFiles::get;
  // cancelled (LoadOptions).
  LanguageModel(Context& context, const WeightFiles& files, const LoadOptions& options = {});

  Context& context() const noexcept { return *context_; }
  const ModelConfig& config() const noexcept { return config_; }  // of the model with all blocks
  // The held blocks. What belongs to another stage is empty in what follows.
  const BlockRange& range() const noexcept { return range_; }
  bool is_first() const noexcept { return range_.begin == 0; }
  bool is_last() const noexcept { return range_.end == config_.layers; }
  bool is_whole() const noexcept { return is_first() && is_last(); }
  const Weight& embeddings() const noexcept { return embeddings_; }  // [V, D]
  // Of each position [P, D], with what else every row gets; or empty.
  const Tensor& position_embeddings() const noexcept { return position_embeddings_; }
  // Of the scores of attention, [H, 2P - 1], as in AttentionInputs; or empty.
  const Tensor& position_bias() const noexcept { return position_bias_; }
  const NormWeights& embedding_norm() const noexcept { return embedding_norm_; }
  const NormWeights& final_norm() const noexcept { return final_norm_; }
  // [V, D]. Errors: unsupported for an encoder; invalid_argument for a stage that is not the last.
  const Weight& head() const;
  const std::vector<BlockWeights>& blocks() const noexcept { return blocks_; }

  // Errors: invalid_argument if a rope of the model depends on the length of the context, and the
  // model was loaded for shorter ones (LoadOptions::context_length).
  void require_context(std::int64_t length) const;

  // Null if no held block has a linear layer of that path; those of experts are in ExpertsWeights.
  const LinearLayer* find_linear(std::string_view path) const;
  // Errors: invalid_argument if there is none.
  const LinearLayer& linear(std::string_view path) const;

  // Cosines and sines of at least `positions` positions, [P, E/2, 2]; cached, and rebuilt for more
  // positions when needed. Those of queries if the rope has a temperature; else of keys as well.
  Tensor rope_table(const RopeSpec& rope, std::int64_t positions);
  // Those of every rope of the model.
  void prepare_rope_tables(std::int64_t positions);

  // Of the held weights, on the device.
  std::size_t weight_bytes() const noexcept { return weight_bytes_; }
  // The stored weights of all blocks, in the order of computation. Their files stay mapped as long
  // as the model lives: for fingerprints of runs, and to name a tensor that is not finite.
  const std::vector<WeightView>& stored_weights() const noexcept { return stored_weights_; }

 private:
  void load_embeddings(LayerLoader& loader);
  void load_output(LayerLoader& loader);

  Context* context_;
  ModelConfig config_;
  BlockRange range_;
  Weight embeddings_, head_;
  Tensor position_embeddings_, position_bias_;
  NormWeights embedding_norm_, final_norm_;
  std::vector<std::pair<RopeSpec, Tensor>> rope_tables_;
  std::vector<BlockWeights> blocks_;
  std::vector<WeightView> stored_weights_;
  std::size_t weight_bytes_ = 0;
  std::int64_t longest_context_;  // for which its ropes are right
};

// Returns all linear layers of the blocks (BlockSpec), in the order of computation.
// all_adapter_sites() (model/transformer/adapter_sites.hpp) also has the embeddings and the head.
std::vector<AdapterSite> adapter_sites(const ModelConfig& config);

// Returns those of the last `last_layers` blocks (0: all) whose last name part is in target_modules
// ("all-linear": every one but routers), and "embed_tokens" and "lm_head" if they are in it.
// Errors: invalid_argument, with the valid names, for one that the model does not have.
std::vector<AdapterSite> select_sites(const ModelConfig& config,
                                      const std::vector<std::string>& target_modules,
                                      std::int64_t last_layers);

}  // namespace clora
