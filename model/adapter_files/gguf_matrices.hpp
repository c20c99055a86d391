// Where the modules of an adapter are in GGUF files of its base model: the matrix by name, the
// place in a stack of experts, and the order of rows and columns (model/weights/stored_order.hpp).
// Private to model/adapter_files. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/configuration/model_config.hpp"

namespace clora {

struct GgufMatrix {
  std::string name;                   // "blk.0.attn_q.weight"
  StackPlace stack = {};              // of the module's matrix in this tensor
  std::int64_t rotated_head_dim = 0;  // rows are heads of this size with adjacent rotary pairs
  std::optional<ValueHeads> value_heads = {};
};

// By the path of the module: "model.layers.0.self_attn.q_proj".
using GgufMatrices = std::map<std::string, GgufMatrix, std::less<>>;

// Those of the GGUF files of this model's family, whichever file the configuration is from.
GgufMatrices gguf_matrices(const ModelConfig& config);

// general.architecture of these files.
std::string_view gguf_architecture(const ModelConfig& config);

// The row and the column of a GGUF file that is this one in Hugging Face's order.
std::int64_t gguf_row(const GgufMatrix& matrix, std::int64_t row);
std::int64_t gguf_column(const GgufMatrix& matrix, std::int64_t column);

}  // namespace clora
