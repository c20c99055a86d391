// Phi-3 and Phi-4-mini (Microsoft, 2024): Llama's blocks with q, k and v in one linear layer, and
// gate and up in another; in Phi-4-mini rope rotates a part of each head.
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/configuration/decoder_block.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/hugging_face_config.hpp"

namespace clora {
namespace {

void join_linears(BlockSpec& block) {
  auto& attention = attention_of(block);
  auto& feed_forward = std::get<FeedForwardLayerSpec>(block[1].f);
  const std::int64_t D = attention.q.inputs;
  attention.qkv = LinearSpec{{"self_attn.qkv_proj", "attn_qkv"},
                             attention.q.outputs + attention.k.outputs + attention.v.outputs,
                             D};
  attention.q = attention.k = attention.v = {};
  feed_forward.gate_up =
      LinearSpec{{"mlp.gate_up_proj", "ffn_up"}, 2 * feed_forward.gate.outputs, D};
  feed_forward.gate = feed_forward.up = {};
}

void add_blocks(ModelConfig& config, const DecoderBlockOptions& options) {
  BlockSpec block = decoder_block(config, options);
  join_linears(block);
  config.blocks.assign(static_cast<std::size_t>(config.layers), block);
}

// The part of a head that rope rotates, by the dictionary of the rope or, in older files, beside
// it.
double partial_factor(const HuggingFaceKeys& keys) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    const auto rope = keys.find_object(name);
    if (!rope) continue;
    if (const auto factor = rope->find_number("partial_rotary_factor")) return *factor;
  }
  return keys.find_number("partial_rotary_factor").value_or(1);
}

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  read_decoder_sizes(keys, {.requires_kv_heads = false}, config);
  for (const char* key : {"attention_bias", "mlp_bias", "use_qkv_bias"}) {
    keys.refuse_if(keys.flag(key), key);
  }
  keys.ignore({"resid_pdrop", "embd_pdrop"});
  const double partial = partial_factor(keys);
  const auto width = static_cast<std::int64_t>(static_cast<double>(config.head_dim) * partial);
  keys.refuse_if(partial > 1 || width < 2 || width % 2 != 0, "partial_rotary_factor");
  config.rope = read_hugging_face_rope(keys, 10000, width, partial);
  add_blocks(config,
             {.window = keys.find_integer("sliding_window"), .function = read_gate_function(keys)});
}

void from_gguf(const GgufKeys& keys, ModelConfig& config) {
  read_gguf_decoder(keys, config, true);
  add_blocks(config, {.window = read_gguf_window(keys)});
}

void to_hugging_face(nlohmann::ordered_json& object, const ModelConfig& config) {
  const auto& window = attention_of(config.blocks.front()).window;
  if (window) object["sliding_window"] = *window;
  object["partial_rotary_factor"] =
      static_cast<double>(config.rope.width) / static_cast<double>(config.head_dim);
  object["original_max_position_embeddings"] =
      config.rope.scaling.kind == RopeScaling::Kind::longrope
          ? config.rope.scaling.original_max_positions
          : config.max_positions;
}

}  // namespace

extern const Family phi3_family;
const Family phi3_family{.name = "phi3",
                         .gguf_name = "phi3",
                         .class_name = "Phi3ForCausalLM",
                         .from_hugging_face = from_hugging_face,
                         .from_gguf = from_gguf,
                         .to_hugging_face = to_hugging_face};

}  // namespace clora
