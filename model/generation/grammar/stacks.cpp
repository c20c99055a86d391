#include "model/generation/grammar/stacks.hpp"

#include <algorithm>

#include "runtime/fail.hpp"

namespace clora::grammar {

FrameId Stacks::push(FrameId parent, StateId state) {
  FrameId child = frames_[parent].first_child;
  while (child != kNone && frames_[child].return_state != state)
    child = frames_[child].next_sibling;
  if (child != kNone) return child;
  child = static_cast<FrameId>(frames_.size());
  frames_.push_back({.parent = parent,
                     .return_state = state,
                     .depth = frames_[parent].depth + 1,
                     .next_sibling = frames_[parent].first_child});
  frames_[parent].first_child = child;
  return child;
}

// The last frame is the first child of its parent, since push() puts new ones first.
void Stacks::truncate(std::size_t size) {
  while (frames_.size() > size) {
    const Frame& last = frames_.back();
    frames_[last.parent].first_child = last.next_sibling;
    frames_.pop_back();
  }
}

void Stacks::add_once(Position position, Positions& to) {
  if (std::ranges::find(to.list, position) != to.list.end()) return;
  if (to.list.size() >= kMaxPositions) {
    fail(ErrorCode::unsupported,
         "grammar: a text must have at most {} readings at once, got more; give alternatives "
         "different beginnings",
         kMaxPositions);
  }
  to.list.push_back(position);
}

void Stacks::add(Position position, Positions& to) const {
  while (automaton_->has_ended(position.state)) {
    if (position.frame == kBottom) {
      to.left = true;
      return;
    }
    position = {return_state(position.frame), parent(position.frame)};
  }
  add_once(position, to);
}

// A call whose rule is the last of its caller needs no frame: it returns to the caller's caller.
void Stacks::enter(const CallEdge& edge, FrameId frame, Positions& to) {
  const StateId start = automaton_->start_of(edge.rule);
  const bool is_last = automaton_->has_ended(edge.target);
  if (!is_last && !can_end(edge.target, frame)) return;
  const std::uint32_t depth = frames_[frame].depth + (is_last ? 0 : 1);
  if (note_depth(depth + automaton_->depth_to_end(start)) > kMaxDepth) return;
  add_once({start, is_last ? frame : push(frame, edge.target)}, to);
}

void Stacks::expand(Positions& positions) {
  for (std::size_t i = 0; i < positions.list.size(); ++i) {
    const Position position = positions.list[i];
    for (const CallEdge& edge : automaton_->calls(position.state))
      enter(edge, position.frame, positions);
    if (!automaton_->accepts(position.state)) continue;
    if (position.frame == kBottom) {
      positions.left = true;
    } else {
      add({return_state(position.frame), parent(position.frame)}, positions);
    }
  }
}

void Stacks::step(const Positions& expanded, std::uint8_t byte, Positions& to) const {
  to.clear();
  for (const Position& position : expanded.list) {
    for (const ByteEdge& edge : automaton_->bytes(position.state)) {
      if (byte < edge.first) break;
      if (byte > edge.last) continue;
      if (can_end(edge.target, position.frame)) add({edge.target, position.frame}, to);
      break;
    }
  }
}

FrameId Stacks::copied_into(std::vector<Frame>& frames, std::vector<FrameId>& new_ids,
                            FrameId frame) const {
  std::vector<FrameId> path;
  for (; new_ids[frame] == kNone; frame = frames_[frame].parent) path.push_back(frame);
  for (FrameId to = new_ids[frame]; !path.empty(); path.pop_back()) {
    const auto id = static_cast<FrameId>(frames.size());
    frames.push_back({.parent = to,
                      .return_state = frames_[path.back()].return_state,
                      .depth = frames[to].depth + 1,
                      .next_sibling = frames[to].first_child});
    frames[to].first_child = id;
    to = new_ids[path.back()] = id;
    frame = path.back();
  }
  return new_ids[frame];
}

void Stacks::compact(Positions& positions) {
  std::vector<Frame> frames(1);
  std::vector<FrameId> new_ids(frames_.size(), kNone);
  new_ids[kBottom] = kBottom;
  for (Position& position : positions.list)
    position.frame = copied_into(frames, new_ids, position.frame);
  frames_ = std::move(frames);
}

}  // namespace clora::grammar
