#include "model/generation/grammar/determinise.hpp"

#include <algorithm>
#include <map>

#include "runtime/fail.hpp"

namespace clora::grammar {
namespace {

using Subset = std::vector<Nfa::State>;  // sorted
using Edge = Nfa::Edge;

class Construction {
 public:
  Construction(const Nfa& nfa, const Rule& rule, const GrammarLimits& limits,
               std::size_t max_states, std::size_t& work)
      : nfa_(nfa),
        rule_(rule),
        limits_(limits),
        max_states_(max_states),
        work_(work),
        visited_(nfa.size()) {}

  std::vector<DeterministicState> run() {
    id_of({nfa_.start()});
    for (std::size_t i = 0; i < subsets_.size(); ++i) add_edges(i);
    return std::move(states_);
  }

 private:
  void spend(std::size_t amount) {
    work_ += amount;
    require(work_ <= limits_.work,
            "grammar: the rule {} takes more than {} steps to compile; use simpler patterns, or "
            "fewer values",
            rule_.name, limits_.work);
  }

  // The states that are reached over empty edges, without those that have only such edges.
  Subset closure(Subset states) {
    ++visit_;
    Subset result;
    for (const Nfa::State state : states) visited_[state] = visit_;
    for (std::size_t i = 0; i < states.size(); ++i) {
      bool matters = states[i] == nfa_.end();
      for (const Edge& edge : nfa_.edges(states[i])) {
        if (edge.kind != Edge::Kind::empty) matters = true;
        if (edge.kind != Edge::Kind::empty || visited_[edge.target] == visit_) continue;
        visited_[edge.target] = visit_;
        states.push_back(edge.target);
      }
      if (matters) result.push_back(states[i]);
    }
    spend(states.size());
    std::ranges::sort(result);
    return result;
  }

  StateId id_of(Subset states) {
    const auto [at, is_new] =
        ids_.emplace(closure(std::move(states)), static_cast<StateId>(subsets_.size()));
    if (is_new) {
      require(
          subsets_.size() < max_states_,
          "grammar: the rules must have at most {} states, got more with the rule {}; allow fewer "
          "values, or shorter ones",
          limits_.states, rule_.name);
      subsets_.push_back(&at->first);
      states_.emplace_back().accepts = std::ranges::binary_search(at->first, nfa_.end());
    }
    return at->second;
  }

  void add_edges(std::size_t index) {
    std::vector<Edge> bytes, calls;
    for (const Nfa::State state : *subsets_[index]) {
      for (const Edge& edge : nfa_.edges(state)) {
        if (edge.kind == Edge::Kind::bytes) bytes.push_back(edge);
        if (edge.kind == Edge::Kind::call) calls.push_back(edge);
      }
    }
    spend(bytes.size() + calls.size());
    add_byte_edges(index, std::move(bytes));
    add_call_edges(index, std::move(calls));
  }

  // Splits the ranges where one of them begins or ends.
  void add_byte_edges(std::size_t index, std::vector<Edge> edges) {
    std::ranges::sort(edges, {}, &Edge::first);
    std::vector<int> cuts;
    for (const Edge& edge : edges) cuts.insert(cuts.end(), {edge.first, edge.last + 1});
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      Subset targets;
      for (const Edge& edge : edges) {
        if (edge.first > cuts[i]) break;
        if (edge.last >= cuts[i]) targets.push_back(edge.target);
      }
      spend(targets.size());
      if (!targets.empty())
        add_byte_edge(index, cuts[i], cuts[i + 1] - 1, id_of(std::move(targets)));
    }
  }

  void add_byte_edge(std::size_t index, int first, int last, StateId target) {
    std::vector<ByteEdge>& edges = states_[index].bytes;
    if (!edges.empty() && edges.back().target == target && edges.back().last + 1 == first) {
      edges.back().last = static_cast<std::uint8_t>(last);
    } else {
      edges.push_back({static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last), target});
    }
  }

  void add_call_edges(std::size_t index, std::vector<Edge> edges) {
    std::ranges::stable_sort(edges, {}, &Edge::rule);
    for (std::size_t i = 0; i < edges.size();) {
      const RuleId rule = edges[i].rule;
      Subset targets;
      for (; i < edges.size() && edges[i].rule == rule; ++i) targets.push_back(edges[i].target);
      const StateId target = id_of(std::move(targets));
      states_[index].calls.push_back({rule, target});
    }
  }

  const Nfa& nfa_;
  const Rule& rule_;
  const GrammarLimits& limits_;
  std::size_t max_states_;
  std::size_t& work_;
  std::vector<std::size_t> visited_;  // by state: the last closure that has it
  std::size_t visit_ = 0;
  std::map<Subset, StateId> ids_;
  std::vector<const Subset*> subsets_;
  std::vector<DeterministicState> states_;
};

}  // namespace

std::vector<DeterministicState> determinise(const Nfa& nfa, const Rule& rule,
                                            const GrammarLimits& limits, std::size_t max_states,
                                            std::size_t& work) {
  return Construction(nfa, rule, limits, max_states, work).run();
}

}  // namespace clora::grammar
