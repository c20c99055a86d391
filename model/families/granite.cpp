// Granite 3 and 4, dense (IBM, 2024): Llama's blocks with four scalars, of the embeddings, the
// scores of attention, the outputs of sub-layers, and the logits.
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/configuration/decoder_block.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/gguf_key_writing.hpp"
#include "model/configuration/hugging_face_config.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

struct Scalars {
  double embedding, attention, residual, logit_divisor;
};

void add_blocks(ModelConfig& config, const Scalars& scalars, const DecoderBlockOptions& options,
                std::string_view file) {
  for (const double each :
       {scalars.embedding, scalars.attention, scalars.residual, scalars.logit_divisor}) {
    if (std::isfinite(each) && each > 0) continue;
    fail(ErrorCode::invalid_file, "{}: the scalars of a granite model must be positive, got {}",
         file, each);
  }
  config.embedding_scale = scalars.embedding;
  config.logit_scale = 1 / scalars.logit_divisor;
  BlockSpec block = decoder_block(config, options);
  attention_of(block).scale = scalars.attention;
  for (SubLayerSpec& layer : block) layer.multiplier = scalars.residual;
  config.blocks.assign(static_cast<std::size_t>(config.layers), block);
}

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  read_decoder(keys, {.requires_kv_heads = false}, config);
  const auto scalar = [&](const char* key) { return keys.find_number(key).value_or(1); };
  const bool attention_bias = keys.flag("attention_bias");
  add_blocks(config,
             {scalar("embedding_multiplier"), scalar("attention_multiplier"),
              scalar("residual_multiplier"), scalar("logits_scaling")},
             {.qkv_bias = attention_bias,
              .o_bias = attention_bias,
              .feed_forward_bias = keys.flag("mlp_bias"),
              .function = read_gate_function(keys)},
             keys.source());
}

// 0 and absent mean "none" in llama.cpp, for the scores 1 / sqrt(E).
void from_gguf(const GgufKeys& keys, ModelConfig& config) {
  read_gguf_decoder(keys, config);
  const auto scalar = [&](const char* key, double none) {
    const double value = keys.find_number(key).value_or(0);
    return value == 0 ? none : value;
  };
  const double by_head_dim = 1 / std::sqrt(static_cast<double>(config.head_dim));
  add_blocks(config,
             {scalar("embedding_scale", 1), scalar("attention.scale", by_head_dim),
              scalar("residual_scale", 1), scalar("logit_scale", 1)},
             {}, keys.path());
}

void to_hugging_face(nlohmann::ordered_json& object, const ModelConfig& config) {
  const BlockSpec& block = config.blocks.front();
  const auto& attention = attention_of(block);
  object["attention_bias"] = attention.q.has_bias;
  object["mlp_bias"] = std::get<FeedForwardLayerSpec>(block[1].f).up.has_bias;
  object["embedding_multiplier"] = config.embedding_scale;
  object["attention_multiplier"] = attention.scale.value();
  object["residual_multiplier"] = block[0].multiplier;
  object["logits_scaling"] = 1 / config.logit_scale;
}

void to_gguf(GgufKeyWriter& keys, const ModelConfig& config) {
  const BlockSpec& block = config.blocks.front();
  keys.number("embedding_scale", config.embedding_scale);
  keys.number("attention.scale", attention_of(block).scale.value());
  keys.number("residual_scale", block[0].multiplier);
  keys.number("logit_scale", 1 / config.logit_scale);
}

}  // namespace

extern const Family granite_family;
const Family granite_family{.name = "granite",
                            .gguf_name = "granite",
                            .class_name = "GraniteForCausalLM",
                            .from_hugging_face = from_hugging_face,
                            .from_gguf = from_gguf,
                            .to_hugging_face = to_hugging_face,
                            .gguf_rope_layout = RopeLayout::interleaved,
                            .to_gguf = {.architecture = "granite", .write = to_gguf}};

}  // namespace clora
