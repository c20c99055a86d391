// BERT (Devlin et al., 2019) and the encoders of its form: MiniLM, E5, bge. Attention in both
// directions over a whole document, layer norms after each sum, learned positions, gelu. Segments
// other than the first, the pooler and heads for other tasks do not enter the embedding of a text.
#include <nlohmann/json.hpp>

#include "model/configuration/encoder_block.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/hugging_face_config.hpp"
#include "model/configuration/model_config_checks.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

EncoderNames names() {
  return {.q = {"attention.self.query", "attn_q"},
          .k = {"attention.self.key", "attn_k"},
          .v = {"attention.self.value", "attn_v"},
          .o = {"attention.output.dense", "attn_output"},
          .attention_norm = {"attention.output.LayerNorm", "attn_output_norm"},
          .up = {"intermediate.dense", "ffn_up"},
          .down = {"output.dense", "ffn_down"},
          .output_norm = {"output.LayerNorm", "layer_output_norm"}};
}

void add_encoder(ModelConfig& config, std::int64_t segments, GeluForm form) {
  config.has_head = false;
  config.embedding = {
      .words = {"embeddings.word_embeddings", "token_embd"},
      .positions = {"embeddings.position_embeddings", "position_embd"},
      .segments = {"embeddings.token_type_embeddings", "token_types"},
      .position_rows = config.max_positions,
      .segment_rows = segments,
      .norm = encoder_norm(config, {"embeddings.LayerNorm", "token_embd_norm"}),
  };
  config.block_prefix = "encoder.layer.";
  config.optional_prefix = "bert.";
  config.unused_tensors = {"embeddings.position_ids", "pooler.", "cls.", "classifier."};
  config.blocks.assign(static_cast<std::size_t>(config.layers),
                       encoder_block(config, names(), form));
}

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  read_encoder(keys, config);
  const auto positions = keys.find_text("position_embedding_type");
  keys.refuse_if(positions.value_or("absolute") != "absolute", "position_embedding_type");
  const std::int64_t segments = keys.find_integer("type_vocab_size").value_or(2);
  add_encoder(config, segments, read_gelu_form(keys));
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
  write_encoder(object, config);
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
