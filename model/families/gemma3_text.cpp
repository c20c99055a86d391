// Gemma 3, the text model (Gemma Team, 2025): Gemma's blocks with norms of each query and key head,
// and sliding windows in five of six layers, with a rope of their own.
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/configuration/family.hpp"
#include "model/configuration/gemma_blocks.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/gguf_key_writing.hpp"
#include "model/configuration/hugging_face_config.hpp"

namespace clora {
namespace {

constexpr std::int64_t kPattern = 6;  // of every six layers, the last one has no window
constexpr double kGlobalBase = 1e6, kLocalBase = 1e4;

// Recent files have a dictionary of two ropes; in older ones rope_scaling is that of layers without
// a window.
void read_ropes(const HuggingFaceKeys& keys, ModelConfig& config,
                std::optional<RopeSpec>& local_spec) {
  const std::int64_t width = config.head_dim;
  const double local = keys.find_number("rope_local_base_freq").value_or(kLocalBase);
  local_spec = RopeSpec{.base = local, .width = width, .scaling = {}};
  const auto both = keys.find_object("rope_parameters");
  const auto global_rope = both ? both->find_object("full_attention") : std::nullopt;
  const auto local_rope = both ? both->find_object("sliding_attention") : std::nullopt;
  if (!global_rope && !local_rope) {
    config.rope = read_hugging_face_rope(keys, kGlobalBase, width);
    return;
  }
  keys.ignore({"rope_theta", "original_max_position_embeddings"});
  config.rope = {.base = kGlobalBase, .width = width, .scaling = {}};
  if (global_rope) config.rope = read_rope_dictionary(keys, *global_rope, kGlobalBase, width);
  if (local_rope) local_spec = read_rope_dictionary(keys, *local_rope, local, width);
}

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  read_decoder_sizes(keys, {.requires_head_dim = true, .tied_head = true}, config);
  keys.ignore({"_sliding_window_pattern"});  // transformers writes it beside layer_types
  const std::int64_t pattern = keys.find_integer("sliding_window_pattern").value_or(kPattern);
  GemmaBlocks gemma = read_gemma_blocks(keys, config, pattern);
  gemma.options.qk_norm = true;
  read_ropes(keys, config, gemma.local_rope);
  add_gemma_blocks(config, gemma);
}

// The metadata has neither the pattern nor, in older files, the base of layers with a window:
// llama.cpp knows them. It also knows the scale by the number of layers: 62 are those of 27B.
void from_gguf(const GgufKeys& keys, ModelConfig& config) {
  read_gguf_decoder(keys, config);
  constexpr std::int64_t kLayersOf27B = 62;
  const std::int64_t width =
      config.layers == kLayersOf27B ? config.hidden_size / config.heads : config.head_dim;
  const double local = keys.find_number("rope.freq_base_swa").value_or(kLocalBase);
  const std::int64_t pattern =
      keys.find_integer("attention.sliding_window_pattern").value_or(kPattern);
  GemmaBlocks gemma{.slides = slides_by_pattern(config.layers, pattern),
                    .window = keys.integer("attention.sliding_window"),
                    .local_rope = RopeSpec{.base = local, .width = config.head_dim, .scaling = {}},
                    .scale = 1 / std::sqrt(static_cast<double>(width))};
  gemma.options.qk_norm = true;
  add_gemma_blocks(config, gemma);
}

void to_hugging_face(nlohmann::ordered_json& object, const ModelConfig& config) {
  write_gemma_blocks(object, config);
  for (const AttentionLayerSpec* attention : attentions_of(config)) {
    if (attention->window) object["rope_local_base_freq"] = attention->rope->base;
  }
}

// Readers without the key of the other base know that it is 10,000.
void to_gguf(GgufKeyWriter& keys, const ModelConfig& config) {
  keys.integer("attention.sliding_window", gemma_window(config));
  for (const AttentionLayerSpec* attention : attentions_of(config)) {
    if (!attention->window || attention->rope->base == kLocalBase) continue;
    keys.number("rope.freq_base_swa", attention->rope->base);
  }
}

}  // namespace

extern const Family gemma3_text_family;
const Family gemma3_text_family{.name = "gemma3_text",
                                .gguf_name = "gemma3",
                                .class_name = "Gemma3ForCausalLM",
                                .from_hugging_face = from_hugging_face,
                                .from_gguf = from_gguf,
                                .to_hugging_face = to_hugging_face,
                                .to_gguf = {.architecture = "gemma3", .write = to_gguf}};

}  // namespace clora
