// MaskCache: the tokens that may follow a state, whatever its rule returns to, found once and kept.
// What depends on the rest of the stack is left to the caller, as the nodes of the tree of tokens
// at which the rule has ended. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "model/generation/grammar/stacks.hpp"
#include "model/generation/grammar/token_trie.hpp"

namespace clora::grammar {

class CachedMask {
 public:
  // `leaves`: see may_leave().
  CachedMask(std::vector<std::uint32_t> mask, std::vector<NodeId> exits, bool leaves,
             std::uint32_t depth_used);

  void add_to(std::span<std::uint32_t> mask) const;  // mask |= the tokens
  const std::vector<NodeId>& exits() const { return exits_; }
  // The rule may end before any token.
  bool may_leave() const { return may_leave_; }
  // The mask holds for frames whose depth and this are together at most kMaxDepth.
  std::uint32_t depth_used() const { return depth_used_; }
  std::size_t bytes() const;

 private:
  std::vector<std::uint32_t> mask_;  // or, if that is smaller:
  std::vector<std::uint32_t> ids_;
  std::vector<NodeId> exits_;
  bool may_leave_;
  std::uint32_t depth_used_;
};

class MaskCache {
 public:
  MaskCache(const Automaton& automaton, const TokenTrie& trie)
      : automaton_(automaton), trie_(trie) {}

  // The mask of a state, or of a state in a rule that then returns to the second one.
  std::shared_ptr<const CachedMask> mask_of(StateId state, std::optional<StateId> return_state);

 private:
  std::shared_ptr<const CachedMask> found(StateId state, std::optional<StateId> return_state) const;

  const Automaton& automaton_;
  const TokenTrie& trie_;
  std::mutex mutex_;  // of what follows
  std::unordered_map<std::uint64_t, std::shared_ptr<const CachedMask>> masks_;
  std::size_t bytes_ = 0;
};

}  // namespace clora::grammar
