// The search order of `clc tune`: next() returns a candidate, add_result() receives its time. No
// candidate is returned twice. Deterministic for a seed. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tools/clc/tune/tune_space.hpp"

namespace clora {

enum class SearchKind {
  exhaustive,  // all, in the head's order
  random,      // all, shuffled; a random sample if limited
  annealing,   // simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983)
};
// The kind named "exhaustive", "random" or "annealing". REQUIRES: `name` is one of them.
SearchKind search_kind(std::string_view name);

class TuneSearch {
 public:
  virtual ~TuneSearch() = default;
  // The next candidate; nullopt at the end of the search.
  virtual std::optional<std::size_t> next() = 0;
  // The time of a candidate returned by next(); nullopt if it does not work.
  virtual void add_result(std::size_t candidate, std::optional<double> seconds) = 0;
};

// `start` is a candidate that works; `most` limits the number of candidates. `candidates` must
// outlive the search.
std::unique_ptr<TuneSearch> make_search(SearchKind kind, const TuneCandidates& candidates,
                                        std::size_t start, std::size_t most, std::uint64_t seed);

}  // namespace clora
