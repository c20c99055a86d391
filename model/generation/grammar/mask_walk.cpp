#include "model/generation/grammar/mask_walk.hpp"

#include <algorithm>
#include <array>

#include "runtime/fail.hpp"

namespace clora::grammar {

void MaskWalk::spend(std::size_t amount) {
  work_ += amount;
  if (work_ > kMaxMaskWork) {
    fail(ErrorCode::unsupported,
         "grammar: a mask must take at most {} steps, got more, because a text has many readings; "
         "give alternatives different beginnings",
         kMaxMaskWork);
  }
}

MaskWalk::Level& MaskWalk::level_at(std::size_t depth) {
  if (levels_.size() <= depth) levels_.resize(depth + 1);
  return levels_[depth];
}

// Inside a string, all tokens below the node may follow if they have no more characters than may
// come next. Characters begin where the automaton expects them: both read valid UTF-8 only.
bool MaskWalk::covers(const Positions& positions, NodeId node) const {
  if (!trie_.is_plain(node)) return false;
  return std::ranges::any_of(positions.list, [&](const Position& position) {
    const std::uint32_t run = automaton_.character_run(position.state);
    return run > 0 && run >= trie_.node(node).characters_below && stacks_.can_nest(position.frame);
  });
}

void MaskWalk::mark_all(std::span<const std::int32_t> ids, std::span<std::uint32_t> mask) const {
  for (const std::int32_t id : ids) mark(mask, id);
}

// Whether the nodes below are to be visited.
bool MaskWalk::visit(NodeId node, Level& level, std::span<std::uint32_t> mask,
                     std::vector<NodeId>* exits) {
  if (level.positions.empty()) return false;
  mark_all(trie_.tokens(node), mask);
  if (!trie_.has_children(node)) return false;
  if (covers(level.positions, node)) {
    mark_all(trie_.tokens_in(node), mask);
    return false;
  }
  stacks_.expand(level.positions);
  level.frames = stacks_.size();
  if (level.positions.left && exits != nullptr) exits->push_back(node);
  return !level.positions.list.empty();
}

void MaskWalk::find_first_bytes() {
  first_bytes_.reset();
  for (const Position& position : levels_[0].positions.list) {
    for (const ByteEdge& edge : automaton_.bytes(position.state)) {
      for (std::size_t byte = edge.first; byte <= edge.last; ++byte) first_bytes_.set(byte);
    }
  }
}

void MaskWalk::walk_below(NodeId node, std::span<std::uint32_t> mask, std::vector<NodeId>* exits) {
  const std::size_t depth = trie_.node(node).depth;
  const NodeId end = trie_.node(node).end;
  for (NodeId next = node + 1; next < end;) {
    const TokenTrie::Node& at = trie_.node(next);
    const std::size_t level = at.depth - depth;
    if (level == 1 && !first_bytes_[at.byte]) {
      next = at.end;
      continue;
    }
    Level& reached = level_at(level);
    const Level& above = levels_[level - 1];
    spend(above.positions.list.size());
    stacks_.truncate(above.frames);
    stacks_.step(above.positions, at.byte, reached.positions);
    next = visit(next, reached, mask, exits) ? next + 1 : at.end;
  }
}

void MaskWalk::run(std::span<const NodeId> nodes, const Positions& from,
                   std::span<std::uint32_t> mask, std::vector<NodeId>* exits) {
  if (from.list.empty()) return;
  const std::size_t frames = stacks_.size();
  level_at(0).positions = from;
  stacks_.expand(levels_[0].positions);
  levels_[0].frames = stacks_.size();
  find_first_bytes();
  for (const NodeId node : nodes) {
    if (covers(from, node)) {
      mark_all(trie_.tokens_in(node), mask);
    } else {
      walk_below(node, mask, exits);
    }
  }
  stacks_.truncate(frames);
}

void MaskWalk::run_all(const Positions& from, std::span<std::uint32_t> mask,
                       std::vector<NodeId>* exits) {
  run(std::array{trie_.plain_root(), trie_.other_root()}, from, mask, exits);
}

}  // namespace clora::grammar
