// LFM2 (Liquid AI, 2025): most blocks have a gated short convolution in place of attention; the
// others have Llama's attention with an RMS norm of each query and key head. config.json tells the
// width of the feed-forward by a rule, and GGUF files the kind of a block by its number of key and
// value heads.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "model/configuration/decoder_block.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/hugging_face_config.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using nlohmann::json;

constexpr std::string_view kAttention = "full_attention", kConv = "conv";

struct Lfm2 {
  std::vector<bool> attends;  // each layer
  std::int64_t taps = 3;
  bool conv_bias = false;
};

ShortConvLayerSpec short_conv(std::int64_t D, const Lfm2& lfm) {
  const bool bias = lfm.conv_bias;
  ShortConvLayerSpec layer{.in = {{"conv.in_proj", "shortconv.in_proj"}, 3 * D, D, bias},
                           .taps = {{"conv.conv.weight", "shortconv.conv.weight"}, D, lfm.taps},
                           .out = {{"conv.out_proj", "shortconv.out_proj"}, D, D, bias}};
  if (bias) layer.bias = ParameterSpec{{"conv.conv.bias", "shortconv.conv.bias"}, D};
  return layer;
}

// Of a block with attention.
BlockSpec attention_block(const ModelConfig& config) {
  BlockSpec block = decoder_block(config, {.qk_norm = true});
  block[0].norm.names.hugging_face = "operator_norm";
  block[1].norm.names.hugging_face = "ffn_norm";
  auto& attention = attention_of(block);
  attention.q_norm->names.hugging_face = "self_attn.q_layernorm";
  attention.k_norm->names.hugging_face = "self_attn.k_layernorm";
  attention.o.names.hugging_face = "self_attn.out_proj";
  auto& feed_forward = std::get<FeedForwardLayerSpec>(block[1].f);
  feed_forward.gate.names.hugging_face = "feed_forward.w1";
  feed_forward.up.names.hugging_face = "feed_forward.w3";
  feed_forward.down.names.hugging_face = "feed_forward.w2";
  return block;
}

void add_blocks(ModelConfig& config, const Lfm2& lfm) {
  config.final_norm.names = {"model.embedding_norm", "token_embd_norm"};
  for (const bool attends : lfm.attends) {
    BlockSpec block = attention_block(config);
    if (!attends) block[0].f = short_conv(config.hidden_size, lfm);
    config.blocks.push_back(std::move(block));
  }
}

// transformers: int(2 n / 3), times a factor, rounded up to a multiple.
std::int64_t adjusted_width(const HuggingFaceKeys& keys, std::int64_t width) {
  constexpr std::int64_t kMax = 1 << 30;
  const std::int64_t multiple = keys.find_integer("block_multiple_of").value_or(256);
  const bool has_factor = keys.find("block_ffn_dim_multiplier") != nullptr;
  const double factor = keys.find_number("block_ffn_dim_multiplier").value_or(1);
  if (width < 1 || width > kMax || multiple < 1 || multiple > kMax || !(factor > 0 && factor < 64))
    fail(ErrorCode::invalid_file,
         "{}: the feed-forward's width {}, block_multiple_of {} and block_ffn_dim_multiplier {} "
         "must be positive",
         keys.source(), width, multiple, factor);
  const std::int64_t part = 2 * width / 3;
  if (!has_factor && keys.has("block_ffn_dim_multiplier")) return part;  // null: neither of them
  const auto scaled = static_cast<std::int64_t>(factor * static_cast<double>(part));
  return (scaled + multiple - 1) / multiple * multiple;
}

std::int64_t feed_forward_width(const HuggingFaceKeys& keys) {
  keys.ignore({"intermediate_size"});
  const auto old = keys.find_integer("block_ff_dim");
  const std::int64_t width = old ? *old : keys.integer("intermediate_size");
  const bool adjusts = keys.find_flag("block_auto_adjust_ff_dim").value_or(true);
  const std::int64_t adjusted = adjusted_width(keys, width);
  return adjusts ? adjusted : width;
}

std::vector<bool> layers_by_type(const HuggingFaceKeys& keys, std::int64_t layers,
                                 const std::vector<std::string>& types) {
  if (std::ssize(types) != layers)
    fail(ErrorCode::invalid_file, "{}: layer_types must have {} entries, one of each layer, got {}",
         keys.source(), layers, types.size());
  std::vector<bool> attends;
  for (const std::string& type : types) {
    if (type != kAttention && type != kConv)
      fail(ErrorCode::unsupported, "{}: the layer type '{}' is not supported; it must be {} or {}",
           keys.source(), type, kConv, kAttention);
    attends.push_back(type == kAttention);
  }
  return attends;
}

// full_attn_idxs is of older files; without both, all layers have attention.
std::vector<bool> read_layers(const HuggingFaceKeys& keys, std::int64_t layers) {
  const json* indices = keys.find("full_attn_idxs");
  if (const auto types = keys.find_texts("layer_types")) {
    return layers_by_type(keys, layers, *types);
  }
  if (indices == nullptr) return std::vector(static_cast<std::size_t>(layers), true);
  std::vector<bool> attends(static_cast<std::size_t>(layers), false);
  if (!indices->is_array()) keys.wrong_kind("full_attn_idxs", "a list of layers", *indices);
  for (const json& index : *indices) {
    const auto layer = json_integer(index);
    if (!layer || *layer < 0 || *layer >= layers)
      keys.wrong_kind("full_attn_idxs", fmt::format("a list of layers below {}", layers), index);
    attends[static_cast<std::size_t>(*layer)] = true;
  }
  return attends;
}

// Keys of Liquid AI's files that transformers does not read; they repeat others.
void check_old_keys(const HuggingFaceKeys& keys, const ModelConfig& config) {
  for (const char* key : {"block_dim", "conv_dim", "conv_dim_out"}) {
    keys.refuse_if(keys.find_integer(key).value_or(config.hidden_size) != config.hidden_size, key);
  }
  for (const char* key : {"block_use_swiglu", "use_pos_enc"}) {
    keys.refuse_if(!keys.find_flag(key).value_or(true), key);
  }
  keys.refuse_if(keys.find_integer("num_heads").value_or(config.heads) != config.heads,
                 "num_heads");
  keys.refuse_if(
      keys.find_number("block_norm_eps").value_or(config.norm_epsilon) != config.norm_epsilon,
      "block_norm_eps");
  keys.refuse_if(keys.find_number("theta").value_or(config.rope.base) != config.rope.base, "theta");
  keys.ignore({"block_mlp_init_scale", "block_out_init_scale", "block_use_xavier_init",
               "conv_use_xavier_init"});
}

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  read_decoder(keys,
               {.tied_head = keys.find_flag("tie_embedding").value_or(true),
                .rope_base = 1e6,
                .epsilon_key = "norm_eps",
                .intermediate_size = feed_forward_width(keys)},
               config);
  if (const auto tied = keys.find_flag("tie_embedding")) config.tied_head = *tied;
  check_old_keys(keys, config);
  add_blocks(config, {.attends = read_layers(keys, config.layers),
                      .taps = keys.find_integer("conv_L_cache").value_or(3),
                      .conv_bias = keys.flag("conv_bias")});
}

// A layer without key and value heads has a convolution.
void from_gguf(const GgufKeys& keys, ModelConfig& config) {
  const auto heads = keys.find_integers("attention.head_count_kv", keys.integer("block_count"));
  Lfm2 lfm{.attends = {}, .taps = keys.integer("shortconv.l_cache")};
  if (!heads || heads->empty())
    fail(ErrorCode::invalid_file, "{}: the key {} is missing", keys.path(),
         keys.name("attention.head_count_kv"));
  config.kv_heads = std::ranges::max(*heads);
  for (const std::int64_t each : *heads) {
    if (each != 0 && each != config.kv_heads)
      fail(ErrorCode::unsupported, "{}: {} with several numbers of heads is not supported",
           keys.path(), keys.name("attention.head_count_kv"));
    lfm.attends.push_back(each != 0);
  }
  read_gguf_decoder(keys, config);
  add_blocks(config, lfm);
}

void to_hugging_face(nlohmann::ordered_json& object, const ModelConfig& config) {
  for (const char* key : {"hidden_act", "rms_norm_eps", "attention_bias", "sliding_window"}) {
    object.erase(key);
  }
  object["norm_eps"] = config.norm_epsilon;
  object["block_auto_adjust_ff_dim"] = false;
  for (const BlockSpec& block : config.blocks) {
    const auto* conv = std::get_if<ShortConvLayerSpec>(&block.front().f);
    object["layer_types"].push_back(conv == nullptr ? kAttention : kConv);
    if (conv == nullptr) continue;
    object["conv_L_cache"] = conv->taps.taps;
    object["conv_bias"] = conv->in.has_bias;
  }
}

}  // namespace

extern const Family lfm2_family;
const Family lfm2_family{.name = "lfm2",
                         .gguf_name = "lfm2",
                         .class_name = "Lfm2ForCausalLM",
                         .from_hugging_face = from_hugging_face,
                         .from_gguf = from_gguf,
                         .to_hugging_face = to_hugging_face};

}  // namespace clora
