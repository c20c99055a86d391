// MPNet (Song et al., 2020): BERT's block with a bias of scores by the distance of two tokens,
// which all layers share, and without segments. Positions begin after the two rows of padding.
#include <nlohmann/json.hpp>

#include "model/configuration/encoder_block.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_keys.hpp"
#include "model/configuration/hugging_face_config.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::int64_t kSkipped = 2;  // rows of position embeddings

EncoderNames names() {
  return {.q = {"attention.attn.q", ""},
          .k = {"attention.attn.k", ""},
          .v = {"attention.attn.v", ""},
          .o = {"attention.attn.o", ""},
          .attention_norm = {"attention.LayerNorm", ""},
          .up = {"intermediate.dense", ""},
          .down = {"output.dense", ""},
          .output_norm = {"output.LayerNorm", ""}};
}

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  read_encoder(keys, config);
  const std::int64_t rows = config.max_positions;
  if (rows <= kSkipped)
    fail(ErrorCode::invalid_file, "{}: max_position_embeddings must be above {}, got {}",
         keys.source(), kSkipped, rows);
  config.max_positions = rows - kSkipped;
  config.has_head = false;
  config.embedding = {
      .words = {"embeddings.word_embeddings", ""},
      .positions = {"embeddings.position_embeddings", ""},
      .position_rows = rows,
      .skipped_positions = kSkipped,
      .norm = encoder_norm(config, {"embeddings.LayerNorm", ""}),
  };
  // transformers computes 32 buckets whatever the configuration says.
  const std::int64_t buckets = keys.find_integer("relative_attention_num_buckets").value_or(32);
  keys.refuse_if(buckets != 32, "relative_attention_num_buckets");
  config.position_bias = {.names = {"encoder.relative_attention_bias", ""}, .buckets = buckets};
  config.block_prefix = "encoder.layer.";
  config.optional_prefix = "mpnet.";
  config.unused_tensors = {"embeddings.position_ids", "pooler.", "lm_head.", "classifier."};
  config.blocks.assign(static_cast<std::size_t>(config.layers),
                       encoder_block(config, names(), read_gelu_form(keys)));
}

void from_gguf(const GgufKeys& keys, ModelConfig&) {
  fail(ErrorCode::unsupported,
       "{}: there is no GGUF format of MPNet models; use the files of Hugging Face", keys.path());
}

void to_hugging_face(nlohmann::ordered_json& object, const ModelConfig& config) {
  write_encoder(object, config);
  object["max_position_embeddings"] = config.embedding.position_rows;
  object["relative_attention_num_buckets"] = config.position_bias.buckets;
}

}  // namespace

extern const Family mpnet_family;
const Family mpnet_family{.name = "mpnet",
                          .gguf_name = "mpnet",
                          .class_name = "MPNetModel",
                          .from_hugging_face = from_hugging_face,
                          .from_gguf = from_gguf,
                          .to_hugging_face = to_hugging_face};

}  // namespace clora
