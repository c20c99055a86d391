// Nfa: the automaton of one rule as its expression spells it, with empty edges; what automaton.cpp
// makes deterministic. Used by one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "model/generation/grammar/expression.hpp"
#include "model/generation/grammar/limits.hpp"

namespace clora::grammar {

class Nfa {
 public:
  using State = std::uint32_t;
  struct Edge {
    enum class Kind : std::uint8_t { empty, bytes, call };
    Kind kind;
    std::uint8_t first, last;
    RuleId rule;
    State target;
  };

  // Errors: invalid_argument if the rule has more states than the limit.
  Nfa(const Rule& rule, const GrammarLimits& limits);

  std::size_t size() const { return edges_.size(); }
  State start() const { return 0; }
  State end() const { return end_; }
  const std::vector<Edge>& edges(State state) const { return edges_[state]; }

 private:
  using Kind = RuleExpression::Kind;

  // Each adds the expression's edges from a state, and returns the state after it. No edge leads
  // back to `from` itself, so that expressions may share it.
  State add(const RuleExpression& expression, State from);
  State add_literal(const std::string& text, State from);
  State add_choice(const RuleExpression& expression, State from);
  State add_list(const RuleExpression& expression, State from);
  State add_element(const RuleExpression& expression, std::size_t index, State from);
  State add_loop(const RuleExpression& expression, bool begins, State from);
  State add_ordered(const RuleExpression& expression, State from);

  State new_state();
  void add_edge(State from, Edge edge) { edges_[from].push_back(edge); }
  void add_empty(State from, State to) { add_edge(from, {Edge::Kind::empty, 0, 0, 0, to}); }
  State add_bytes(std::uint8_t first, std::uint8_t last, State from);

  const Rule& rule_;
  const GrammarLimits& limits_;
  std::vector<std::vector<Edge>> edges_;
  State end_ = 0;
};

}  // namespace clora::grammar
