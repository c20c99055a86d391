#include "model/generation/grammar/automaton.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "model/generation/grammar/determinise.hpp"
#include "model/generation/grammar/nfa.hpp"
#include "runtime/fail.hpp"

namespace clora::grammar {
namespace {

constexpr std::uint32_t kEndless = kMaxDepth + 1;

// Computes Automaton::depth_to_end() from the ends backwards, the least depth first: a state ends
// as its best edge does, where a call needs both its rule and what follows.
class DepthSearch {
 public:
  DepthSearch(const Automaton& automaton, std::span<const StateId> starts)
      : automaton_(automaton), depths_(automaton.size(), kEndless), users_(automaton.size()) {
    for (StateId state = 0; state < automaton.size(); ++state) {
      for (const ByteEdge& edge : automaton.bytes(state)) users_[edge.target].push_back(state);
      for (const CallEdge& edge : automaton.calls(state)) {
        users_[edge.target].push_back(state);
        users_[starts[edge.rule]].push_back(state);
      }
      if (automaton.accepts(state)) improve(state, 0);
    }
  }

  std::vector<std::uint32_t> run() {
    while (!queue_.empty()) {
      const auto [depth, state] = queue_.top();
      queue_.pop();
      if (depth > depths_[state]) continue;
      for (const StateId user : users_[state]) improve(user, depth_by_edges(user));
    }
    return std::move(depths_);
  }

 private:
  std::uint32_t depth_by_edges(StateId state) const {
    std::uint32_t best = depths_[state];
    for (const ByteEdge& edge : automaton_.bytes(state))
      best = std::min(best, depths_[edge.target]);
    for (const CallEdge& edge : automaton_.calls(state)) {
      const std::uint32_t inside = depths_[automaton_.start_of(edge.rule)] + 1;
      best = std::min(best, std::max(depths_[edge.target], inside));
    }
    return best;
  }

  void improve(StateId state, std::uint32_t depth) {
    if (depth >= depths_[state]) return;
    depths_[state] = depth;
    queue_.emplace(depth, state);
  }

  using Entry = std::pair<std::uint32_t, StateId>;
  const Automaton& automaton_;
  std::vector<std::uint32_t> depths_;
  std::vector<std::vector<StateId>> users_;  // states with an edge that depends on this one
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

Automaton::Automaton(const RuleSet& rules, const GrammarLimits& limits) {
  require(rules.rules.size() <= limits.rules, "grammar: at most {} rules are supported, got {}",
          limits.rules, rules.rules.size());
  std::size_t work = 0;
  for (const Rule& rule : rules.rules) add_rule(rule, limits, work);
  refuse_left_recursion(rules);
  remove_endless(rules);
  find_character_runs(rules.characters);
}

void Automaton::add_rule(const Rule& rule, const GrammarLimits& limits, std::size_t& work) {
  const auto base = static_cast<StateId>(states_.size());
  starts_.push_back(base);
  const Nfa nfa(rule, limits);
  for (const DeterministicState& from :
       determinise(nfa, rule, limits, limits.states - states_.size(), work)) {
    State& state = states_.emplace_back();
    state.accepts = from.accepts;
    state.is_in_fragment = rule.is_fragment;
    state.bytes = static_cast<std::uint32_t>(byte_edges_.size());
    state.byte_count = static_cast<std::uint32_t>(from.bytes.size());
    state.calls = static_cast<std::uint32_t>(call_edges_.size());
    state.call_count = static_cast<std::uint32_t>(from.calls.size());
    for (ByteEdge edge : from.bytes) {
      edge.target += base;
      byte_edges_.push_back(edge);
    }
    for (CallEdge edge : from.calls) {
      edge.target += base;
      call_edges_.push_back(edge);
    }
  }
}

// A state may be empty if its rule can end there without another byte.
std::vector<bool> Automaton::states_that_may_be_empty() const {
  std::vector<bool> may_be_empty(states_.size());
  for (StateId state = 0; state < size(); ++state) may_be_empty[state] = accepts(state);
  for (bool changes = true; changes;) {
    changes = false;
    for (StateId state = 0; state < size(); ++state) {
      if (may_be_empty[state]) continue;
      may_be_empty[state] = std::ranges::any_of(calls(state), [&](const CallEdge& edge) {
        return may_be_empty[starts_[edge.rule]] && may_be_empty[edge.target];
      });
      changes = changes || may_be_empty[state];
    }
  }
  return may_be_empty;
}

// Removes, again and again, the rules that begin with no remaining rule; what is left is a cycle.
void Automaton::refuse_left_recursion(const RuleSet& rules) const {
  const std::vector<bool> may_be_empty = states_that_may_be_empty();
  std::vector<std::vector<RuleId>> begun_by(starts_.size());
  std::vector<std::size_t> open(starts_.size());
  std::vector<RuleId> seen_from(size(), static_cast<RuleId>(starts_.size()));
  for (RuleId rule = 0; rule < starts_.size(); ++rule) {
    std::vector<StateId> states{starts_[rule]};
    for (std::size_t i = 0; i < states.size(); ++i) {
      for (const CallEdge& edge : calls(states[i])) {
        begun_by[edge.rule].push_back(rule);
        ++open[rule];
        if (!may_be_empty[starts_[edge.rule]] || seen_from[edge.target] == rule) continue;
        seen_from[edge.target] = rule;
        states.push_back(edge.target);
      }
    }
  }
  std::vector<RuleId> done;
  for (RuleId rule = 0; rule < open.size(); ++rule) {
    if (open[rule] == 0) done.push_back(rule);
  }
  for (std::size_t i = 0; i < done.size(); ++i) {
    for (const RuleId user : begun_by[done[i]]) {
      if (--open[user] == 0) done.push_back(user);
    }
  }
  const auto left = std::ranges::find_if(open, [](std::size_t count) { return count > 0; });
  if (left == open.end()) return;
  fail(ErrorCode::unsupported,
       "grammar: the rule {} must not begin with itself, directly or through others; put what "
       "differs first",
       rules.rules[static_cast<std::size_t>(left - open.begin())].name);
}

std::vector<std::uint32_t> Automaton::depths_to_end() const {
  return DepthSearch(*this, starts_).run();
}

void Automaton::remove_endless(const RuleSet& rules) {
  const std::vector<std::uint32_t> depths = depths_to_end();
  if (depths[starts_[0]] >= kEndless) {
    fail(ErrorCode::unsupported,
         "grammar: the rule {} must match a finite text that nests at most {} levels, and no text "
         "does; "
         "check for a recursion without an end and for parts that exclude each other",
         rules.rules[0].name, kMaxDepth);
  }
  for (StateId id = 0; id < size(); ++id) {
    State& state = states_[id];
    state.depth_to_end = depths[id];
    ByteEdge* bytes = byte_edges_.data() + state.bytes;
    state.byte_count = static_cast<std::uint32_t>(
        std::remove_if(bytes, bytes + state.byte_count,
                       [&](const ByteEdge& edge) { return depths[edge.target] >= kEndless; }) -
        bytes);
    CallEdge* calls = call_edges_.data() + state.calls;
    state.call_count =
        static_cast<std::uint32_t>(std::remove_if(calls, calls + state.call_count,
                                                  [&](const CallEdge& edge) {
                                                    return depths[edge.target] >= kEndless ||
                                                           depths[starts_[edge.rule]] >= kEndless;
                                                  }) -
                                   calls);
    state.has_ended = state.accepts && state.byte_count == 0 && state.call_count == 0;
  }
}

// A run goes on over calls of the character's rule, and any number of times around a cycle of them.
// It stops where the rest would need a deeper stack than a call does.
void Automaton::find_character_runs(const std::vector<RuleId>& characters) {
  const auto next_of = [&](StateId state) {
    const std::uint32_t depth = std::max(depth_to_end(state), 1U);
    for (const CallEdge& edge : calls(state)) {
      const bool is_character = std::ranges::find(characters, edge.rule) != characters.end();
      if (is_character && depth_to_end(edge.target) <= depth) return edge.target;
    }
    return static_cast<StateId>(size());
  };
  constexpr std::uint32_t kUnknown = kAnyNumber - 1;
  for (State& state : states_) state.character_run = kUnknown;
  for (StateId first = 0; first < size(); ++first) {
    std::vector<StateId> path;
    std::uint32_t run = 0;
    for (StateId at = first; at < size(); at = next_of(at)) {
      if (states_[at].character_run != kUnknown) {
        run = states_[at].character_run;
        break;
      }
      states_[at].character_run = kAnyNumber;  // if the path returns here, it is a cycle
      path.push_back(at);
      if (next_of(at) >= size()) break;
    }
    const bool ends_path = !path.empty() && next_of(path.back()) >= size();
    if (ends_path) run = 0;
    for (auto at = path.rbegin(); at != path.rend(); ++at) {
      const bool is_end = ends_path && at == path.rbegin();
      if (!is_end && run != kAnyNumber) ++run;
      states_[*at].character_run = run;
    }
  }
}

}  // namespace clora::grammar
