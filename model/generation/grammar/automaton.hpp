// Automaton: the rules of a grammar as deterministic automata over bytes that call each other, with
// one numbering of states for all rules. Immutable.
//
// Each rule is made deterministic by itself, with calls as symbols; which call is right may only
// show later, so that a text can have several positions at once (stacks.hpp). States and calls from
// which no text can be finished are removed, so that a position always leads to an end.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "model/generation/grammar/expression.hpp"
#include "model/generation/grammar/limits.hpp"

namespace clora::grammar {

using StateId = std::uint32_t;

struct ByteEdge {
  std::uint8_t first, last;
  StateId target;
};

struct CallEdge {
  RuleId rule;
  StateId target;  // after the rule
};

class Automaton {
 public:
  // Errors: unsupported, naming the rule, if it begins with itself, or if no finite text matches;
  // invalid_argument beyond a limit.
  explicit Automaton(const RuleSet& rules, const GrammarLimits& limits = {});

  std::size_t size() const { return states_.size(); }
  StateId start() const { return starts_[0]; }
  StateId start_of(RuleId rule) const { return starts_[rule]; }

  bool accepts(StateId state) const { return states_[state].accepts; }
  // Accepts, and has no edges: the rule has ended.
  bool has_ended(StateId state) const { return states_[state].has_ended; }
  bool is_in_fragment(StateId state) const { return states_[state].is_in_fragment; }
  // Sorted by byte; the ranges are disjoint.
  std::span<const ByteEdge> bytes(StateId state) const {
    return std::span(byte_edges_).subspan(states_[state].bytes, states_[state].byte_count);
  }
  std::span<const CallEdge> calls(StateId state) const {
    return std::span(call_edges_).subspan(states_[state].calls, states_[state].call_count);
  }
  // The depth of calls within which the rule can be finished from here.
  std::uint32_t depth_to_end(StateId state) const { return states_[state].depth_to_end; }
  // The number of plain characters of a string (RuleSet::characters) that may come next, whichever
  // they are.
  static constexpr std::uint32_t kAnyNumber = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t character_run(StateId state) const { return states_[state].character_run; }

 private:
  struct State {
    std::uint32_t bytes = 0, byte_count = 0, calls = 0, call_count = 0;
    std::uint32_t depth_to_end = 0, character_run = 0;
    bool accepts = false, has_ended = false, is_in_fragment = false;
  };

  void add_rule(const Rule& rule, const GrammarLimits& limits, std::size_t& work);
  void refuse_left_recursion(const RuleSet& rules) const;
  std::vector<bool> states_that_may_be_empty() const;
  std::vector<std::uint32_t> depths_to_end() const;
  void remove_endless(const RuleSet& rules);
  void find_character_runs(const std::vector<RuleId>& characters);

  std::vector<State> states_;
  std::vector<ByteEdge> byte_edges_;
  std::vector<CallEdge> call_edges_;
  std::vector<StateId> starts_;  // by rule
};

}  // namespace clora::grammar
