// ModelConfig: the sizes and options of a transformer, a decoder or an encoder, from config.json or
// a GGUF file's metadata. A value type; the same model gives the same ModelConfig from either
// format, except for the rotary layout and for what a format does not store.
//
// Whatever this library cannot compute exactly (an architecture, an activation, a rope type, a
// quantisation scheme) is refused by name here, never ignored.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/configuration/block_spec.hpp"
#include "clora/ops/rowwise/rope.hpp"

namespace clora {

class GgufFile;

// The input of the first block: norm(word embedding + position embedding).
struct EmbeddingSpec {
  TensorNames words = {"model.embed_tokens", "token_embd"};  // [V, D]
  // Learned embeddings of positions [position_rows, D], of which the first `skipped` belong to no
  // position, and of segments [segment_rows, D], of which the first is added to every row.
  TensorNames positions = {}, segments = {};
  std::int64_t position_rows = 0, skipped_positions = 0, segment_rows = 0;
  NormSpec norm = {};
};

// A bias of the scores of every attention layer by the distance of two tokens
// (model/transformer/position_bias.hpp), of a table [buckets, H].
struct PositionBiasSpec {
  TensorNames names = {};
  std::int64_t buckets = 0;  // 0: there is none; else a multiple of 4
  std::int64_t max_distance = 128;
};

// The row or rows of a text that become its vector.
enum class Pooling { mean, first_token, last_token };

struct ModelConfig {
  std::string family;  // "llama": the name of the Family, and the model_type of config.json
  std::string name;    // for display; may be empty
  std::int64_t layers = 0;
  std::int64_t hidden_size = 0;        // D
  std::int64_t intermediate_size = 0;  // F
  std::int64_t heads = 0;              // H
  std::int64_t kv_heads = 0;           // G, divides H
  std::int64_t head_dim = 0;           // E, even; H E may differ from D
  std::int64_t vocabulary = 0;         // V
  double norm_epsilon = 0;             // of every norm
  RopeSpec rope;                       // of most layers
  // The order in which the files store the rows of layers that rope rotates (LinearSpec).
  RopeLayout rope_layout = RopeLayout::half_split;
  bool tied_head = false;      // the head is the embedding matrix
  double embedding_scale = 1;  // multiplies the embeddings
  double logit_scale = 1;      // multiplies the logits
  double logit_soft_cap = 0;   // c: logits become c tanh(logit / c); 0: unchanged
  NormSpec final_norm;         // of the last block's output, if it exists
  // An encoder's output is that of its last block: it has no head.
  bool has_head = true;
  EmbeddingSpec embedding;
  PositionBiasSpec position_bias;
  std::string block_prefix = "model.layers.";  // of Hugging Face's names, before the block's number
  // What Hugging Face's names may begin with besides: "bert." in files with a head for a task.
  std::string optional_prefix;
  // Prefixes of tensors that its files may have and that its output does not depend on, such as
  // those of a head for another task.
  std::vector<std::string> unused_tensors;
  std::int64_t max_positions = 0;
  std::optional<Pooling> pooling;  // that an embedding model's GGUF file asks for
  // One for each layer. The sizes above are those of most blocks; these decide.
  std::vector<BlockSpec> blocks;
  std::optional<std::int32_t> bos_id;
  std::vector<std::int32_t> eos_ids;  // any of them ends a text
  // Enabled keys that are not read for the family, neither here nor by transformers or
  // llama.cpp (docs/decisions/unknown-keys.md).
  std::vector<std::string> unread_keys;
};

// Reads config.json. `file` names it in messages. Errors: invalid_file (a key is missing, of the
// wrong kind, or a size is impossible), unsupported (naming the feature).
ModelConfig from_hugging_face(const nlohmann::json& config, std::string_view file);

// Reads a GGUF file's metadata; the vocabulary size is that of the embedding matrix. Errors: as
// above.
ModelConfig from_gguf(const GgufFile& file);

// Returns config.json for weights in Hugging Face's order (q and k of an interleaved file must be
// reordered: half_split_source_row). Errors: unsupported, for rope factors that no rope type gives.
nlohmann::ordered_json to_hugging_face_json(const ModelConfig& config);

// The attention layers of all blocks, in order. They are those of `config`.
std::vector<const AttentionLayerSpec*> attentions_of(const ModelConfig& config);

// The rope for contexts of up to `length` positions: dynamic and longrope become another base and
// factors, which are the same for all positions. 0: not longer than the original ones.
RopeSpec at_length(const RopeSpec& rope, std::int64_t length);

// Returns the angle per position of each rotary pair, scaling applied: [width / 2]. Those of
// dynamic and longrope are for contexts that are not longer than the original ones.
std::vector<double> rope_frequencies(const RopeSpec& rope);

// The rope of keys: that of queries without its temperature.
RopeSpec of_keys(RopeSpec rope);
// The factor of queries at a position: 1 without a temperature.
double query_factor(const RopeSpec& rope, std::int64_t position);

// Returns the row of an interleaved q or k weight [H E, D] that is row `row` of the same weight in
// half-split order: head h, pair i is at rows h E + 2i, 2i + 1 in interleaved order and at h E + i,
// h E + E/2 + i in half-split order.
std::int64_t half_split_source_row(std::int64_t row, std::int64_t head_dim);

}  // namespace clora
