// Gemma 2 (Gemma Team, 2024): Gemma's blocks with soft caps of the scores and of the logits, and
// sliding windows in every second layer.
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/configuration/family.hpp"
#include "model/configuration/gemma_blocks.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/gguf_key_writing.hpp"
#include "model/configuration/hugging_face_config.hpp"

namespace clora {
namespace {

constexpr std::int64_t kPattern = 2;  // of every two layers, the last one has no window
constexpr double kScoreCap = 50, kLogitCap = 30;

// null means no cap.
double read_cap(const HuggingFaceKeys& keys, std::string_view key, double by_default) {
  return keys.has(key) ? keys.find_number(key).value_or(0) : by_default;
}

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  read_decoder(keys, {.requires_head_dim = true, .tied_head = true}, config);
  GemmaBlocks gemma = read_gemma_blocks(keys, config, kPattern);
  gemma.soft_cap = read_cap(keys, "attn_logit_softcapping", kScoreCap);
  config.logit_soft_cap = read_cap(keys, "final_logit_softcapping", kLogitCap);
  add_gemma_blocks(config, gemma);
}

// The metadata has neither the pattern nor the scale: llama.cpp knows them, the scale by the number
// of layers: 46 are those of 27B.
void from_gguf(const GgufKeys& keys, ModelConfig& config) {
  read_gguf_decoder(keys, config);
  constexpr std::int64_t kLayersOf27B = 46;
  const std::int64_t width =
      config.layers == kLayersOf27B ? config.hidden_size / config.heads : config.head_dim;
  config.logit_soft_cap = keys.find_number("final_logit_softcapping").value_or(kLogitCap);
  add_gemma_blocks(config,
                   {.slides = slides_by_pattern(config.layers, kPattern),
                    .window = keys.find_integer("attention.sliding_window").value_or(4096),
                    .scale = 1 / std::sqrt(static_cast<double>(width)),
                    .soft_cap = keys.find_number("attn_logit_softcapping").value_or(kScoreCap)});
}

nlohmann::ordered_json cap_json(double cap) {
  return cap == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(cap);
}

void to_hugging_face(nlohmann::ordered_json& object, const ModelConfig& config) {
  write_gemma_blocks(object, config);
  object["attn_logit_softcapping"] = cap_json(attentions_of(config).front()->soft_cap);
  object["final_logit_softcapping"] = cap_json(config.logit_soft_cap);
}

void to_gguf(GgufKeyWriter& keys, const ModelConfig& config) {
  keys.integer("attention.sliding_window", gemma_window(config));
  keys.number("attn_logit_softcapping", attentions_of(config).front()->soft_cap);
  keys.number("final_logit_softcapping", config.logit_soft_cap);
}

}  // namespace

extern const Family gemma2_family;
const Family gemma2_family{.name = "gemma2",
                           .gguf_name = "gemma2",
                           .class_name = "Gemma2ForCausalLM",
                           .from_hugging_face = from_hugging_face,
                           .from_gguf = from_gguf,
                           .to_hugging_face = to_hugging_face,
                           .to_gguf = {.architecture = "gemma2", .write = to_gguf}};

}  // namespace clora
