#include "model/configuration/encoder_block.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "model/configuration/hugging_face_config.hpp"
#include "model/configuration/model_config_checks.hpp"
#include "runtime/fail.hpp"

namespace clora {

NormSpec encoder_norm(const ModelConfig& config, const TensorNames& names) {
  return {.names = names, .width = config.hidden_size, .has_bias = true};
}

BlockSpec encoder_block(const ModelConfig& config, const EncoderNames& names, GeluForm form) {
  const std::int64_t D = config.hidden_size, F = config.intermediate_size;
  AttentionLayerSpec attention{.is_causal = false,
                               .heads = config.heads,
                               .kv_heads = config.heads,
                               .head_dim = config.head_dim,
                               .q = {names.q, D, D, true},
                               .k = {names.k, D, D, true},
                               .v = {names.v, D, D, true},
                               .o = {names.o, D, D, true}};
  MlpLayerSpec mlp{.form = form, .up = {names.up, F, D, true}, .down = {names.down, D, F, true}};
  return {
      {.sum_norm = encoder_norm(config, names.attention_norm), .f = std::move(attention)},
      {.sum_norm = encoder_norm(config, names.output_norm), .f = std::move(mlp)},
  };
}

void read_encoder(const HuggingFaceKeys& keys, ModelConfig& config) {
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
  for (const char* key : {"is_decoder", "add_cross_attention"}) keys.refuse_if(keys.flag(key), key);
  keys.ignore({"gradient_checkpointing", "classifier_dropout", "hidden_dropout_prob",
               "attention_probs_dropout_prob", "chunk_size_feed_forward", "tie_word_embeddings"});
}

GeluForm read_gelu_form(const HuggingFaceKeys& keys) {
  const std::string function = keys.find_text("hidden_act").value_or("gelu");
  if (function == "gelu_new" || function == "gelu_pytorch_tanh") return GeluForm::tanh;
  keys.refuse_if(function != "gelu", "hidden_act");
  return GeluForm::exact;
}

void write_encoder(nlohmann::ordered_json& object, const ModelConfig& config) {
  for (const char* key :
       {"num_key_value_heads", "head_dim", "rms_norm_eps", "rope_theta", "rope_scaling",
        "attention_bias", "attention_dropout", "tie_word_embeddings", "sliding_window"}) {
    object.erase(key);
  }
  const auto& mlp = std::get<MlpLayerSpec>(config.blocks.front().back().f);
  object["hidden_act"] = mlp.form == GeluForm::exact ? "gelu" : "gelu_pytorch_tanh";
  object["layer_norm_eps"] = config.norm_epsilon;
}

}  // namespace clora
