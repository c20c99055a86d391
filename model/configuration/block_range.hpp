// BlockRange: consecutive blocks of a model. A model that is split by layers is computed in stages,
// each of which holds one range: the first one also the embeddings, the last one the final norm and
// the head. Value types and pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "clora/model/configuration/model_config.hpp"

namespace clora {

// Blocks [begin, end).
struct BlockRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t count() const { return end - begin; }
  bool contains(std::int64_t block) const { return begin <= block && block < end; }
  bool operator==(const BlockRange&) const = default;
};

BlockRange all_blocks(const ModelConfig& config);

// Whether a stage of these blocks holds the tensor of that name, in the form of WeightFiles. The
// matrix of tied embeddings is held by the first stage and by the last one, a bias by the distance
// of tokens by every stage.
bool holds_tensor(const ModelConfig& config, const BlockRange& blocks, std::string_view name);

// Errors: invalid_argument unless the range has a block and is one of the model's.
void check(const BlockRange& blocks, const ModelConfig& config);

}  // namespace clora
