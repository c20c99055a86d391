// determinise(): the subset construction, for one rule. Pure function; thread-safe.
#pragma once

#include <vector>

#include "model/generation/grammar/automaton.hpp"
#include "model/generation/grammar/nfa.hpp"

namespace clora::grammar {

// A state whose edges lead to indices of the same list. State 0 is the start.
struct DeterministicState {
  std::vector<ByteEdge> bytes;  // sorted, disjoint
  std::vector<CallEdge> calls;  // sorted by rule, each rule once
  bool accepts = false;
};

// `work` counts the elements of the subsets, over all rules. Errors: invalid_argument if `work`
// exceeds its limit, or the states max_states.
std::vector<DeterministicState> determinise(const Nfa& nfa, const Rule& rule,
                                            const GrammarLimits& limits, std::size_t max_states,
                                            std::size_t& work);

}  // namespace clora::grammar
