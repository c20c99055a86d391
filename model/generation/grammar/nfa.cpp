#include "model/generation/grammar/nfa.hpp"

#include <algorithm>

#include "runtime/fail.hpp"

namespace clora::grammar {

Nfa::Nfa(const Rule& rule, const GrammarLimits& limits) : rule_(rule), limits_(limits) {
  end_ = add(*rule.expression, new_state());
}

Nfa::State Nfa::new_state() {
  require(edges_.size() < limits_.nfa_states,
          "grammar: the rule {} must have at most {} states, got more; allow fewer values, or "
          "shorter ones",
          rule_.name, limits_.nfa_states);
  edges_.emplace_back();
  return static_cast<State>(edges_.size() - 1);
}

Nfa::State Nfa::add_bytes(std::uint8_t first, std::uint8_t last, State from) {
  const State to = new_state();
  add_edge(from, {Edge::Kind::bytes, first, last, 0, to});
  return to;
}

Nfa::State Nfa::add(const RuleExpression& expression, State from) {
  switch (expression.kind) {
    case Kind::nothing:
      return new_state();
    case Kind::range:
      return add_bytes(expression.first, expression.last, from);
    case Kind::literal:
      return add_literal(expression.text, from);
    case Kind::sequence:
      for (const ExpressionPtr& part : expression.parts) from = add(*part, from);
      return from;
    case Kind::choice:
      return add_choice(expression, from);
    case Kind::list:
      return add_list(expression, from);
    case Kind::ordered:
      return add_ordered(expression, from);
    case Kind::call:
      break;
  }
  const State to = new_state();
  add_edge(from, {Edge::Kind::call, 0, 0, expression.rule, to});
  return to;
}

Nfa::State Nfa::add_literal(const std::string& text, State from) {
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    from = add_bytes(byte, byte, from);
  }
  return from;
}

Nfa::State Nfa::add_choice(const RuleExpression& expression, State from) {
  const State end = new_state();
  for (const ExpressionPtr& part : expression.parts) add_empty(add(*part, from), end);
  return end;
}

Nfa::State Nfa::add_element(const RuleExpression& expression, std::size_t index, State from) {
  if (index > 0 && expression.separator != nullptr) from = add(*expression.separator, from);
  const bool is_part = index < expression.parts.size();
  return add(is_part ? *expression.parts[index] : *expression.rest, from);
}

// Any number of `rest`; `begins`: no element precedes.
Nfa::State Nfa::add_loop(const RuleExpression& expression, bool begins, State from) {
  const State end = new_state();
  add_empty(from, end);
  if (begins && expression.separator != nullptr) add_empty(add(*expression.rest, from), end);
  const State loop = new_state();
  add_empty(end, loop);
  add_empty(add_element(expression, kUnbounded, loop), end);
  return end;
}

Nfa::State Nfa::add_list(const RuleExpression& expression, State from) {
  const std::size_t counted = expression.max != kUnbounded
                                  ? expression.max
                                  : std::max(expression.parts.size(), expression.min);
  const State end = new_state();
  for (std::size_t i = 0; i < counted; ++i) {
    if (i >= expression.min) add_empty(from, end);
    const State before = from;
    from = add_element(expression, i, from);
    if (from == before) break;  // an empty element: more of them change nothing
  }
  if (expression.max == kUnbounded) from = add_loop(expression, counted == 0, from);
  add_empty(from, end);
  return end;
}

// State first[i]: no element so far; state next[i]: after an element; state pending[i]: after a
// separator. In each of them, the parts before i are decided.
Nfa::State Nfa::add_ordered(const RuleExpression& expression, State from) {
  const std::size_t count = expression.parts.size();
  State first = from, next = new_state(), pending = new_state();
  const auto separate = [&] {
    const bool has_separator = expression.separator != nullptr;
    add_empty(has_separator ? add(*expression.separator, next) : next, pending);
  };
  for (std::size_t i = 0; i < count; ++i) {
    separate();
    const State next_first = new_state(), next_next = new_state(), next_pending = new_state();
    add_empty(add(*expression.parts[i], first), next_next);
    add_empty(add(*expression.parts[i], pending), next_next);
    if (!expression.is_required[i]) {
      add_empty(first, next_first);
      add_empty(next, next_next);
      add_empty(pending, next_pending);
    }
    first = next_first;
    next = next_next;
    pending = next_pending;
  }
  const State end = new_state();
  if (expression.rest != nullptr) {
    separate();
    add_empty(add(*expression.rest, first), next);
    add_empty(add(*expression.rest, pending), next);
  }
  add_empty(next, end);
  return end;
}

}  // namespace clora::grammar
