#include "clora/model/transformer/memory_policy.hpp"

#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "runtime/fail.hpp"

namespace clora {

std::string_view name_of(SavedType type) {
  constexpr std::array<std::string_view, 4> names{"computed", "bf16", "f16", "q8"};
  return names.at(static_cast<std::size_t>(type));
}

SavedType named_saved_type(std::string_view name) {
  for (const SavedType type :
       {SavedType::as_computed, SavedType::bf16, SavedType::f16, SavedType::q8}) {
    if (name == name_of(type)) return type;
  }
  fail(ErrorCode::invalid_argument,
       "memory policy: saved activations must be computed, bf16, f16 or q8, got '{}'", name);
}

void check(const MemoryPolicy& policy) {
  require(policy.blocks_per_checkpoint >= 0,
          "memory policy: blocks_per_checkpoint must not be negative, got {}",
          policy.blocks_per_checkpoint);
  require(policy.feed_forward_rows >= 0 && policy.feed_forward_rows % kRowsOfTiles == 0,
          "memory policy: feed_forward_rows must be a multiple of {}, or 0, got {}", kRowsOfTiles,
          policy.feed_forward_rows);
}

std::string text_of(const MemoryPolicy& policy) {
  std::vector<std::string> parts;
  if (policy.blocks_per_checkpoint == 1) parts.emplace_back("checkpoints of each block");
  if (policy.blocks_per_checkpoint > 1) {
    parts.push_back(fmt::format("checkpoints every {} blocks", policy.blocks_per_checkpoint));
  }
  if (policy.feed_forward_rows > 0) {
    parts.push_back(fmt::format("feed-forward in tiles of {} rows", policy.feed_forward_rows));
  }
  if (policy.saved != SavedType::as_computed) {
    parts.push_back(fmt::format("saved in {}", name_of(policy.saved)));
  }
  return parts.empty() ? "everything kept" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace clora
