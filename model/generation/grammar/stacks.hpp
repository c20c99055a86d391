// Stacks: where a text is in a grammar. A position is a state and a frame; frames form a tree of
// the states to return to, so that equal stacks are equal numbers.
//
// A text has several positions while its readings differ. Used by one thread; copyable. The
// automaton must outlive it.
#pragma once

#include <cstdint>
#include <vector>

#include "model/generation/grammar/automaton.hpp"

namespace clora::grammar {

using FrameId = std::uint32_t;

struct Position {
  StateId state;
  FrameId frame;
  bool operator==(const Position&) const = default;
};

// What one text leads to. `left`: a reading has left the bottom frame.
struct Positions {
  std::vector<Position> list = {};
  bool left = false;

  bool empty() const { return list.empty() && !left; }
  void clear() {
    list.clear();
    left = false;
  }
  bool operator==(const Positions&) const = default;
};

class Stacks {
 public:
  static constexpr FrameId kBottom = 0;

  explicit Stacks(const Automaton& automaton) : automaton_(&automaton), frames_(1) {}

  // The frame that returns to `state` and then to `parent`.
  FrameId push(FrameId parent, StateId state);
  StateId return_state(FrameId frame) const { return frames_[frame].return_state; }
  FrameId parent(FrameId frame) const { return frames_[frame].parent; }
  std::uint32_t depth(FrameId frame) const { return frames_[frame].depth; }
  // Whether a position's rules can be finished within kMaxDepth. All positions in lists can.
  bool can_end(StateId state, FrameId frame) const {
    return note_depth(depth(frame) + automaton_->depth_to_end(state)) <= kMaxDepth;
  }

  // Whether a call from the frame is within kMaxDepth.
  bool can_nest(FrameId frame) const { return note_depth(depth(frame) + 1) <= kMaxDepth; }

  // Adds a position, or what it returns to if its rule has ended. Errors: unsupported if there are
  // more than kMaxPositions.
  void add(Position position, Positions& to) const;

  // Adds to `positions` all that are reached without a byte: into rules, and out of them.
  void expand(Positions& positions);
  // The positions after a byte, of expanded positions.
  void step(const Positions& expanded, std::uint8_t byte, Positions& to) const;

  // The number of frames; truncate() removes those that were added since.
  std::size_t size() const { return frames_.size(); }
  void truncate(std::size_t size);
  // Keeps only the frames of these positions, and renumbers them.
  void compact(Positions& positions);

  // The largest depth that can_end() has compared with the limit since reset_depth_used().
  std::uint32_t depth_used() const { return depth_used_; }
  void reset_depth_used() { depth_used_ = 0; }

 private:
  static constexpr FrameId kNone = static_cast<FrameId>(-1);
  struct Frame {
    FrameId parent = 0;
    StateId return_state = 0;
    std::uint32_t depth = 0;
    FrameId first_child = kNone, next_sibling = kNone;
  };

  std::uint32_t note_depth(std::uint32_t depth) const {
    if (depth > depth_used_) depth_used_ = depth;
    return depth;
  }
  static void add_once(Position position, Positions& to);
  void enter(const CallEdge& edge, FrameId frame, Positions& to);
  FrameId copied_into(std::vector<Frame>& frames, std::vector<FrameId>& new_ids,
                      FrameId frame) const;

  const Automaton* automaton_;
  std::vector<Frame> frames_;
  mutable std::uint32_t depth_used_ = 0;
};

}  // namespace clora::grammar
