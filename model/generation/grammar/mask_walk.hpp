// MaskWalk: finds the tokens that may follow some positions, by following the tree of tokens and
// the automaton together. Used by one thread; must not outlive its arguments.
#pragma once

#include <bitset>
#include <cstdint>
#include <span>
#include <vector>

#include "model/generation/grammar/stacks.hpp"
#include "model/generation/grammar/token_trie.hpp"

namespace clora::grammar {

inline void mark(std::span<std::uint32_t> mask, std::int32_t id) {
  const auto bit = static_cast<std::uint32_t>(id);
  mask[bit / 32] |= 1U << (bit % 32);
}

class MaskWalk {
 public:
  // Leaves `stacks` as it was after each run.
  MaskWalk(const Automaton& automaton, const TokenTrie& trie, Stacks& stacks)
      : automaton_(automaton), trie_(trie), stacks_(stacks) {}

  // Sets the bits of the tokens below each of the nodes whose bytes after the node may follow the
  // positions. Appends to `exits`, unless null, the nodes with others below them at which a reading
  // has left the bottom frame; the tokens that end there are among those that may follow.
  // Errors: unsupported if the grammar has so many readings that the walk exceeds kMaxMaskWork.
  void run(std::span<const NodeId> nodes, const Positions& from, std::span<std::uint32_t> mask,
           std::vector<NodeId>* exits);
  // Of all tokens.
  void run_all(const Positions& from, std::span<std::uint32_t> mask, std::vector<NodeId>* exits);

 private:
  struct Level {
    Positions positions;     // expanded
    std::size_t frames = 0;  // of the stacks, with those of the positions
  };

  bool covers(const Positions& positions, NodeId node) const;
  void mark_all(std::span<const std::int32_t> ids, std::span<std::uint32_t> mask) const;
  void find_first_bytes();
  void walk_below(NodeId node, std::span<std::uint32_t> mask, std::vector<NodeId>* exits);
  bool visit(NodeId node, Level& level, std::span<std::uint32_t> mask, std::vector<NodeId>* exits);
  Level& level_at(std::size_t depth);
  void spend(std::size_t amount);

  const Automaton& automaton_;
  const TokenTrie& trie_;
  Stacks& stacks_;
  std::vector<Level> levels_;
  std::bitset<256> first_bytes_;  // that the positions of level 0 may go on with
  std::size_t work_ = 0;
};

}  // namespace clora::grammar
