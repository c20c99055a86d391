// The blocks of Gemma 2 and 3: norms of w + 1 before and after each sub-layer, geglu, embeddings
// times sqrt(D), a scale of the scores of its own, and sliding windows in some layers. Private to
// model/.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "model/configuration/decoder_block.hpp"
#include "model/configuration/hugging_face_keys.hpp"

namespace clora {

struct GemmaBlocks {
  std::vector<bool> slides;  // each layer: whether it has the window
  std::int64_t window = 0;
  std::optional<RopeSpec> local_rope = {};  // of layers with a window, if it is another one
  double scale = 1;
  double soft_cap = 0;  // of scores
  DecoderBlockOptions options = {.function = GateFunction::gelu};
};

// Sets the blocks, the scale of the embeddings and the form of the final norm.
void add_gemma_blocks(ModelConfig& config, const GemmaBlocks& gemma);

// Of every `pattern` layers, the last one has no window; below 1: all have one.
std::vector<bool> slides_by_pattern(std::int64_t layers, std::int64_t pattern);

// layer_types or else the pattern, sliding_window, query_pre_attn_scalar, attention_bias and
// hidden_activation.
GemmaBlocks read_gemma_blocks(const HuggingFaceKeys& keys, const ModelConfig& config,
                              std::int64_t pattern);
// The same keys of config.json.
void write_gemma_blocks(nlohmann::ordered_json& object, const ModelConfig& config);

// The sliding window of the layers that have one; 0 if none has.
std::int64_t gemma_window(const ModelConfig& config);

}  // namespace clora
