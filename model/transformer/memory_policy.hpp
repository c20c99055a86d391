// MemoryPolicy: what a recorded training step keeps of its forward for its backward, and what it
// computes again. It changes memory and time, not the mathematics of a step: what is recomputed has
// the same bits, and only a saved type rounds (and says so).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace clora {

// The type in which activations are kept: as they are computed, or rounded to fewer bits. q8: 8-bit
// integers with an f16 scale for each 32 neighbours of a row.
enum class SavedType : std::uint8_t { as_computed, bf16, f16, q8 };
std::string_view name_of(SavedType type);  // "computed", "bf16", "f16", "q8"
// Errors: invalid_argument for a name of none.
SavedType named_saved_type(std::string_view name);

struct MemoryPolicy {
  // Gradient checkpointing (Chen et al., 2016): of all blocks, only the input of every n-th is
  // kept, and the backward of n blocks first recomputes them. With n = 1 each block is recomputed
  // once; with more, the inputs of a segment are recomputed first, so that each block is recomputed
  // twice. 0: every activation is kept.
  std::int64_t blocks_per_checkpoint = 0;
  // Rows at a time of the gated feed-forward, the widest activations of a block. Its backward
  // recomputes them. A multiple of kRowsOfTiles; 0: all rows at once. With dropout, each tile has
  // its own masks.
  std::int64_t feed_forward_rows = 0;
  SavedType saved = SavedType::as_computed;

  bool checkpoints() const noexcept { return blocks_per_checkpoint > 0; }
  bool operator==(const MemoryPolicy&) const = default;
};

// Views of tiles begin at multiples of this many rows, where a kernel argument may begin.
inline constexpr std::int64_t kRowsOfTiles = 256;

// Errors: invalid_argument for a negative number, or rows that are no multiple of kRowsOfTiles.
void check(const MemoryPolicy& policy);

// "checkpoints of each block, feed-forward in tiles of 2048 rows, saved in bf16"; "everything kept"
std::string text_of(const MemoryPolicy& policy);

}  // namespace clora
