// Qwen3.5, the dense text model (Qwen Team, 2025): three blocks with Gated DeltaNet follow each
// other, then one with attention whose output has a gate. Norms are of w + 1, but not that of
// Gated DeltaNet; rope rotates a part of each head.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/configuration/decoder_block.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/hugging_face_config.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::string_view kAttention = "full_attention", kDeltaNet = "linear_attention";
constexpr std::int64_t kInterval = 4;  // of every four layers, the last one has attention

struct Qwen35 {
  std::vector<bool> attends;  // each layer
  std::int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  std::int64_t taps = 0;
  bool bias = false;  // of attention's linear layers
};

// Errors: invalid_file if a size is impossible.
void check(const Qwen35& qwen, std::string_view file) {
  constexpr std::int64_t kMax = 1 << 10;  // of ops/recurrent/delta_rule.hpp
  for (const std::int64_t size : {qwen.key_heads, qwen.value_heads, qwen.key_dim, qwen.value_dim}) {
    if (size < 1 || size > kMax)
      fail(ErrorCode::invalid_file,
           "{}: heads of Gated DeltaNet and their elements must be from 1 to {}, got {}", file,
           kMax, size);
  }
  if (qwen.value_heads % qwen.key_heads != 0)
    fail(ErrorCode::invalid_file,
         "{}: the {} value heads of Gated DeltaNet must be a multiple of its {} key heads", file,
         qwen.value_heads, qwen.key_heads);
}

DeltaNetLayerSpec delta_net(std::int64_t D, const Qwen35& qwen) {
  const std::int64_t keys = qwen.key_heads * qwen.key_dim, H = qwen.value_heads;
  const std::int64_t values = H * qwen.value_dim, width = 2 * keys + values;
  const auto heads = [&](std::int64_t size, std::int64_t first = 0, bool in_columns = false) {
    return ValueHeads{first, qwen.key_heads, H / qwen.key_heads, size, in_columns};
  };
  const auto linear = [](const char* name, const char* gguf, std::int64_t outputs,
                         std::int64_t inputs, const ValueHeads& order) {
    return LinearSpec{.names = {std::string("linear_attn.") + name, gguf},
                      .outputs = outputs,
                      .inputs = inputs,
                      .value_heads = order};
  };
  return {.key_heads = qwen.key_heads,
          .value_heads = H,
          .key_dim = qwen.key_dim,
          .value_dim = qwen.value_dim,
          .qkv = linear("in_proj_qkv", "attn_qkv", width, D, heads(qwen.value_dim, 2 * keys)),
          .z = linear("in_proj_z", "attn_gate", values, D, heads(qwen.value_dim)),
          .b = linear("in_proj_b", "ssm_beta", H, D, heads(1)),
          .a = linear("in_proj_a", "ssm_alpha", H, D, heads(1)),
          .taps = {.names = {"linear_attn.conv1d.weight", "ssm_conv1d.weight"},
                   .width = width,
                   .taps = qwen.taps,
                   .value_heads = heads(qwen.value_dim, 2 * keys)},
          .rate = {.names = {"linear_attn.A_log", "ssm_a"},
                   .width = H,
                   .negative_exp = true,
                   .value_heads = heads(1)},
          .dt_bias = {.names = {"linear_attn.dt_bias", "ssm_dt.bias"},
                      .width = H,
                      .value_heads = heads(1)},
          .norm = {{"linear_attn.norm", "ssm_norm"}, qwen.value_dim},
          .out = linear("out_proj", "ssm_out", D, values, heads(qwen.value_dim, 0, true))};
}

BlockSpec attention_block(const ModelConfig& config, const Qwen35& qwen) {
  BlockSpec block =
      decoder_block(config, {.qkv_bias = qwen.bias, .o_bias = qwen.bias, .qk_norm = true});
  block[0].norm.plus_one = block[1].norm.plus_one = true;
  block[1].norm.names.gguf = "post_attention_norm";
  auto& attention = attention_of(block);
  attention.q_norm->plus_one = attention.k_norm->plus_one = true;
  attention.output_gate = true;
  attention.q.outputs *= 2;
  return block;
}

void add_blocks(ModelConfig& config, const Qwen35& qwen) {
  config.final_norm.plus_one = true;
  for (const bool attends : qwen.attends) {
    BlockSpec block = attention_block(config, qwen);
    if (!attends) block[0].f = delta_net(config.hidden_size, qwen);
    config.blocks.push_back(std::move(block));
  }
}

std::vector<bool> by_interval(std::int64_t layers, std::int64_t interval, std::string_view file) {
  if (interval < 1)
    fail(ErrorCode::invalid_file, "{}: full_attention_interval must be positive, got {}", file,
         interval);
  std::vector<bool> attends;
  for (std::int64_t i = 1; i <= layers; ++i) attends.push_back(i % interval == 0);
  return attends;
}

std::vector<bool> read_layers(const HuggingFaceKeys& keys, std::int64_t layers) {
  const std::int64_t interval = keys.find_integer("full_attention_interval").value_or(kInterval);
  const auto types = keys.find_texts("layer_types");
  if (!types) return by_interval(layers, interval, keys.source());
  if (std::ssize(*types) != layers)
    fail(ErrorCode::invalid_file, "{}: layer_types must have {} entries, one of each layer, got {}",
         keys.source(), layers, types->size());
  std::vector<bool> attends;
  for (const std::string& type : *types) {
    if (type != kAttention && type != kDeltaNet)
      fail(ErrorCode::unsupported, "{}: the layer type '{}' is not supported; it must be {} or {}",
           keys.source(), type, kDeltaNet, kAttention);
    attends.push_back(type == kAttention);
  }
  return attends;
}

// The part of a head that rope rotates.
double partial_factor(const HuggingFaceKeys& keys) {
  const double beside = keys.find_number("partial_rotary_factor").value_or(0.25);
  const auto rope = keys.find_object("rope_parameters");
  return rope ? rope->find_number("partial_rotary_factor").value_or(beside) : beside;
}

void read_rope(const HuggingFaceKeys& keys, ModelConfig& config) {
  const double partial = partial_factor(keys);
  const double width = static_cast<double>(config.head_dim) * partial;
  if (!(width >= 2 && partial <= 1) || static_cast<std::int64_t>(width) % 2 != 0)
    fail(ErrorCode::unsupported, "{}: rotating {} of the {} elements of a head is not supported",
         keys.source(), width, config.head_dim);
  config.rope = read_hugging_face_rope(keys, 10000, static_cast<std::int64_t>(width), partial);
}

void refuse_other_keys(const HuggingFaceKeys& keys) {
  keys.refuse_if(read_gate_function(keys) != GateFunction::silu, "hidden_act");
  keys.refuse_if(!keys.find_flag("attn_output_gate").value_or(true), "attn_output_gate");
  // The type of the states in other programs, and the prediction of further tokens, whose tensors
  // a text model does not have.
  keys.ignore({"mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"});
}

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  read_decoder_sizes(keys, {.requires_head_dim = true}, config);
  read_rope(keys, config);
  refuse_other_keys(keys);
  const auto size = [&](const char* key, std::int64_t by_default) {
    return keys.find_integer(key).value_or(by_default);
  };
  const Qwen35 qwen{.attends = read_layers(keys, config.layers),
                    .key_heads = size("linear_num_key_heads", 16),
                    .value_heads = size("linear_num_value_heads", 32),
                    .key_dim = size("linear_key_head_dim", 128),
                    .value_dim = size("linear_value_head_dim", 128),
                    .taps = size("linear_conv_kernel_dim", 4),
                    .bias = keys.flag("attention_bias")};
  check(qwen, keys.source());
  add_blocks(config, qwen);
}

void from_gguf(const GgufKeys& keys, ModelConfig& config) {
  read_gguf_decoder(keys, config, true);
  keys.ignore({"rope.dimension_sections"});  // of images' positions
  Qwen35 qwen{.attends = {},
              .key_heads = keys.integer("ssm.group_count"),
              .value_heads = keys.integer("ssm.time_step_rank"),
              .key_dim = keys.integer("ssm.state_size"),
              .taps = keys.integer("ssm.conv_kernel")};
  const std::int64_t values = keys.integer("ssm.inner_size");
  qwen.value_dim = qwen.value_heads > 0 ? values / qwen.value_heads : 0;
  check(qwen, keys.path());
  if (values != qwen.value_dim * qwen.value_heads)
    fail(ErrorCode::invalid_file, "{}: {} must be a multiple of the {} value heads, got {}",
         keys.path(), keys.name("ssm.inner_size"), qwen.value_heads, values);
  const std::int64_t interval = keys.find_integer("full_attention_interval").value_or(kInterval);
  if (const auto recurrent = keys.find_flags("attention.recurrent_layers", config.layers)) {
    for (const bool each : *recurrent) qwen.attends.push_back(!each);
  } else {
    qwen.attends = by_interval(config.layers, interval, keys.path());
  }
  add_blocks(config, qwen);
}

void to_hugging_face(nlohmann::ordered_json& object, const ModelConfig& config) {
  object["partial_rotary_factor"] =
      static_cast<double>(config.rope.width) / static_cast<double>(config.head_dim);
  for (const BlockSpec& block : config.blocks) {
    if (const auto* attention = std::get_if<AttentionLayerSpec>(&block.front().f)) {
      object["layer_types"].push_back(kAttention);
      object["attention_bias"] = attention->o.has_bias;
      continue;
    }
    const auto& delta_net = std::get<DeltaNetLayerSpec>(block.front().f);
    object["layer_types"].push_back(kDeltaNet);
    object["linear_num_key_heads"] = delta_net.key_heads;
    object["linear_num_value_heads"] = delta_net.value_heads;
    object["linear_key_head_dim"] = delta_net.key_dim;
    object["linear_value_head_dim"] = delta_net.value_dim;
    object["linear_conv_kernel_dim"] = delta_net.taps.taps;
  }
}

}  // namespace

extern const Family qwen3_5_text_family;
const Family qwen3_5_text_family{.name = "qwen3_5_text",
                                 .gguf_name = "qwen35",
                                 .class_name = "Qwen3_5ForCausalLM",
                                 .from_hugging_face = from_hugging_face,
                                 .from_gguf = from_gguf,
                                 .to_hugging_face = to_hugging_face};

}  // namespace clora
