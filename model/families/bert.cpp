// BERT (Devlin et al., 2019) and the encoders of its form: MiniLM, E5, bge. Attention in both
// directions over a whole document, layer norms after each sum, learned positions, gelu. Segments
// other than the first, the pooler and heads for other tasks do not enter the embedding of a text.
#include <nlohmann/json.hpp>

#include "model/configuration/family.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/hugging_face_config.hpp"
#include "model/configuration/model_config_checks.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

NormSpec layer_norm(const ModelConfig& c, const char* name, const char* gguf) {
  return {.names = {name, gguf}, .width = c.hidden_size, .has_bias = true};
}

SubLayerSpec attention_layer(const ModelConfig& c) {
  const std::int64_t D = c.hidden_size;
  const auto linear = [&](const char* name, const char* gguf) {
    return LinearSpec{{name, gguf}, D, D, true};
  };
  AttentionLayerSpec attention{.is_causal = false,
                               .heads = c.heads,
                               .kv_heads = c.heads,
                               .head_dim = c.head_dim,
                               .q = linear("attention.self.query", "attn_q"),
                               .k = linear("attention.self.key", "attn_k"),
                               .v = linear("attention.self.value", "attn_v"),
                               .o = linear("attention.output.dense", "attn_output")};
  return {.sum_norm = layer_norm(c, "attention.output.LayerNorm", "attn_output_norm"),
          .f = std::move(attention)};
}

SubLayerSpec mlp_layer(const ModelConfig& c, GeluForm form) {
  const std::int64_t D = c.hidden_size, F = c.intermediate_size;
  return {.sum_norm = layer_norm(c, "output.LayerNorm", "layer_output_norm"),
          .f = MlpLayerSpec{.form = form,
                            .up = {{"intermediate.dense", "ffn_up"}, F, D, true},
                            .down = {{"output.dense", "ffn_down"}, D, F, true}}};
}

void add_encoder(ModelConfig& config, std::int64_t segments, GeluForm form) {
  config.has_head = false;
  config.embedding = {
      .words = {"embeddings.word_embeddings", "token_embd"},
      .positions = {"embeddings.position_embeddings", "position_embd"},
      .segments = {"embeddings.token_type_embeddings", "token_types"},
      .position_rows = config.max_positions,
      .segment_rows = segments,
      .norm = layer_norm(config, "embeddings.LayerNorm", "token_embd_norm"),
  };
  config.block_prefix = "encoder.layer.";
  config.optional_prefix = "bert.";
  config.unused_tensors = {"embeddings.position_ids", "pooler.", "cls.", "classifier."};
  config.blocks.assign(static_cast<std::size_t>(config.layers),
                       {attention_layer(config), mlp_layer(config, form)});
}

GeluForm gelu_form(const HuggingFaceKeys& keys) {
  const std::string function = keys.find_text("hidden_act").value_or("gelu");
  if (function == "gelu_new" || function == "gelu_pytorch_tanh") return GeluForm::tanh;
  keys.refuse_if(function != "gelu", "hidden_act");
  return GeluForm::exact;
}

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  config.layers = keys.integer("num_hidden_layers");
  config.hidden_size = keys.integer("hidden_size");
  config.intermediate_size = keys.integer("intermediate_size");
  config.heads = config.kv_heads = keys.integer("num_attention_heads");
  if (config.heads < 1 || config.hidden_size % config.heads != 0)
    fail(ErrorCode::invalid_file, "{}: hidden_size must be a multiple of num_attention_heads",
         keys.source());
  config.head_dim = config.hidden_size / config.heads;
  config.vocabulary = keys.integer("vocab_size");
  config.max_positions = keys.integer("max_position_embeddings");
  config.norm_epsilon = keys.number("layer_norm_eps");
  check_sizes(config, keys.source());
  const auto positions = keys.find_text("position_embedding_type");
  keys.refuse_if(positions.value_or("absolute") != "absolute", "position_embedding_type");
  for (const char* key : {"is_decoder", "add_cross_attention"}) keys.refuse_if(keys.flag(key), key);
  keys.ignore({"gradient_checkpointing", "classifier_dropout", "hidden_dropout_prob",
               "attention_probs_dropout_prob", "chunk_size_feed_forward", "tie_word_embeddings"});
  const std::int64_t segments = keys.find_integer("type_vocab_size").value_or(2);
  add_encoder(config, segments, gelu_form(keys));
}

// llama.cpp's numbers of poolings: none, mean, the first token, the last one, a classifier's.
std::optional<Pooling> read_pooling(const GgufKeys& keys) {
  switch (keys.find_integer("pooling_type").value_or(0)) {
    case 0:
      return std::nullopt;
    case 1:
      return Pooling::mean;
    case 2:
      return Pooling::first_token;
    case 3:
      return Pooling::last_token;
    default:
      fail(ErrorCode::unsupported, "{}: {} must be from 0 to 3", keys.path(),
           keys.name("pooling_type"));
  }
}

void from_gguf(const GgufKeys& keys, ModelConfig& config) {
  const std::string path = keys.path();
  config.layers = keys.integer("block_count");
  config.hidden_size = keys.integer("embedding_length");
  config.intermediate_size = keys.integer("feed_forward_length");
  config.heads = config.kv_heads = keys.integer("attention.head_count");
  if (config.heads < 1 || config.hidden_size % config.heads != 0)
    fail(ErrorCode::invalid_file, "{}: embedding_length must be a multiple of attention.head_count",
         path);
  config.head_dim = config.hidden_size / config.heads;
  config.max_positions = keys.integer("context_length");
  config.norm_epsilon = keys.number("attention.layer_norm_epsilon");
  if (keys.find_flag("attention.causal").value_or(true))
    fail(ErrorCode::unsupported, "{}: {} must be false", path, keys.name("attention.causal"));
  config.pooling = read_pooling(keys);
  const GgufTensor* words = keys.file().find_tensor("token_embd.weight");
  if (words == nullptr || words->shape.rank() != 2)
    fail(ErrorCode::invalid_file, "{}: token_embd.weight is missing", path);
  config.vocabulary = words->shape[0];
  check_sizes(config, path);
  const GgufTensor* segments = keys.file().find_tensor("token_types.weight");
  const bool has_segments = segments != nullptr && segments->shape.rank() == 2;
  add_encoder(config, has_segments ? segments->shape[0] : 0, GeluForm::exact);
}

void to_hugging_face(nlohmann::ordered_json& object, const ModelConfig& config) {
  for (const char* key :
       {"num_key_value_heads", "head_dim", "rms_norm_eps", "rope_theta", "rope_scaling",
        "attention_bias", "attention_dropout", "tie_word_embeddings", "sliding_window"}) {
    object.erase(key);
  }
  const auto& mlp = std::get<MlpLayerSpec>(config.blocks.front().back().f);
  object["hidden_act"] = mlp.form == GeluForm::exact ? "gelu" : "gelu_pytorch_tanh";
  object["layer_norm_eps"] = config.norm_epsilon;
  object["position_embedding_type"] = "absolute";
  object["type_vocab_size"] = config.embedding.segment_rows;
}

}  // namespace

extern const Family bert_family;
const Family bert_family{.name = "bert",
                         .gguf_name = "bert",
                         .class_name = "BertModel",
                         .from_hugging_face = from_hugging_face,
                         .from_gguf = from_gguf,
                         .to_hugging_face = to_hugging_face};

}  // namespace clora
