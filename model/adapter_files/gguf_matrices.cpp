#include "model/adapter_files/gguf_matrices.hpp"

#include "clora/model/weights/weights.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_key_writing.hpp"
#include "model/weights/stored_order.hpp"

namespace clora {
namespace {

constexpr std::string_view kWeight = ".weight";

}  // namespace

GgufMatrices gguf_matrices(const ModelConfig& config) {
  const bool is_interleaved = written_rope_layout(config) == RopeLayout::interleaved;
  GgufMatrices matrices;
  for (const WeightNeed& need : weight_needs(config)) {
    if (!need.name.ends_with(kWeight) || need.shape.rank() != 2) continue;
    matrices.emplace(need.name.substr(0, need.name.size() - kWeight.size()),
                     GgufMatrix{.name = need.gguf_name,
                                .stack = need.stack,
                                .rotated_head_dim = is_interleaved ? need.rotated_head_dim : 0,
                                .value_heads = need.value_heads});
  }
  return matrices;
}

// Files that are written may say another architecture than those that are read: llama.cpp has none
// for Mistral 7B, whose files say "llama".
std::string_view gguf_architecture(const ModelConfig& config) {
  const Family& family = family_of(config.family, "adapter");
  return family.to_gguf.architecture.empty() ? family.gguf_name : family.to_gguf.architecture;
}

std::int64_t gguf_row(const GgufMatrix& matrix, std::int64_t row) {
  return stored_row(matrix.rotated_head_dim, matrix.value_heads, row);
}

std::int64_t gguf_column(const GgufMatrix& matrix, std::int64_t column) {
  if (!matrix.value_heads || !matrix.value_heads->in_columns) return column;
  return stored_index(*matrix.value_heads, column);
}

}  // namespace clora
