// How the blocks of a model are divided over the devices of a run that splits it by layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "clora/model/configuration/block_range.hpp"
#include "clora/model/weights/weights.hpp"

namespace clora {

// The stored bytes of each block, with those of the embeddings added to the first block and those
// of final norm and head to the last one. Tied embeddings count in both.
std::vector<std::size_t> block_bytes(const WeightFiles& files);

// Divides blocks of these sizes into as many consecutive ranges as there are shares, so that the
// largest quotient of a range's bytes and its share is smallest; among equal divisions the one
// whose later ranges are longer. Each range has a block. Pure; thread-safe. Errors:
// invalid_argument for fewer blocks than shares, no share, or one that is not above 0.
std::vector<BlockRange> split_blocks(std::span<const std::size_t> bytes,
                                     std::span<const std::int64_t> shares);

// The same for a model. shares: one for each stage.
std::vector<BlockRange> split_blocks(const WeightFiles& files,
                                     std::span<const std::int64_t> shares);

}  // namespace clora
