#include "model/generation/grammar/mask_cache.hpp"

#include <bit>
#include <utility>

#include "model/generation/grammar/mask_walk.hpp"

namespace clora::grammar {

CachedMask::CachedMask(std::vector<std::uint32_t> mask, std::vector<NodeId> exits, bool leaves,
                       std::uint32_t depth_used)
    : mask_(std::move(mask)),
      exits_(std::move(exits)),
      may_leave_(leaves),
      depth_used_(depth_used) {
  std::size_t count = 0;
  for (const std::uint32_t word : mask_) count += static_cast<std::size_t>(std::popcount(word));
  if (count >= mask_.size()) return;
  for (std::uint32_t word = 0; word < mask_.size(); ++word) {
    for (std::uint32_t bits = mask_[word]; bits != 0; bits &= bits - 1)
      ids_.push_back(word * 32 + static_cast<std::uint32_t>(std::countr_zero(bits)));
  }
  mask_ = {};
}

void CachedMask::add_to(std::span<std::uint32_t> mask) const {
  for (std::size_t i = 0; i < mask_.size(); ++i) mask[i] |= mask_[i];
  for (const std::uint32_t id : ids_) mark(mask, static_cast<std::int32_t>(id));
}

std::size_t CachedMask::bytes() const {
  return sizeof *this +
         sizeof(std::uint32_t) * (mask_.size() + ids_.capacity() + exits_.capacity());
}

std::shared_ptr<const CachedMask> MaskCache::found(StateId state,
                                                   std::optional<StateId> return_state) const {
  Stacks stacks(automaton_);
  const FrameId frame =
      return_state ? stacks.push(Stacks::kBottom, *return_state) : Stacks::kBottom;
  std::vector<std::uint32_t> mask((static_cast<std::size_t>(trie_.vocabulary_size()) + 31) / 32);
  std::vector<NodeId> exits;
  Positions positions{.list = {{state, frame}}};
  MaskWalk(automaton_, trie_, stacks).run_all(positions, mask, &exits);
  stacks.expand(positions);
  return std::make_shared<const CachedMask>(std::move(mask), std::move(exits), positions.left,
                                            stacks.depth_used());
}

std::shared_ptr<const CachedMask> MaskCache::mask_of(StateId state,
                                                     std::optional<StateId> return_state) {
  const std::uint64_t key = (std::uint64_t{state} << 32U) | (return_state ? *return_state + 1 : 0);
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = masks_.find(key); at != masks_.end()) return at->second;
  }
  const std::shared_ptr<const CachedMask> mask = found(state, return_state);
  const std::lock_guard lock(mutex_);
  if (bytes_ + mask->bytes() <= kMaxCachedMaskBytes && masks_.emplace(key, mask).second)
    bytes_ += mask->bytes();
  return mask;
}

}  // namespace clora::grammar
