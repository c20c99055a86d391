// In which order `clc tune` tries candidates. A search is asked for the next one and told how long
// it took; it never asks for one twice. Deterministic for a seed. Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tools/clc/tune_space.hpp"

namespace clora {

enum class SearchKind {
  exhaustive,  // all, in the head's order
  random,      // all, shuffled: with a limit a fair sample
  annealing,  // walks from neighbour to neighbour, seldom uphill (Kirkpatrick, Gelatt, Vecchi 1983)
};
// Of "exhaustive", "random" and "annealing". REQUIRES: one of them.
SearchKind search_kind(std::string_view name);

class TuneSearch {
 public:
  virtual ~TuneSearch() = default;
  // Nothing: it is over.
  virtual std::optional<std::size_t> next() = 0;
  // Of the candidate that next() gave; nothing for one that does not work.
  virtual void tell(std::size_t candidate, std::optional<double> seconds) = 0;
};

// `start` is a candidate that is known to work; `most` are to be tried. The candidates must outlive
// the search.
std::unique_ptr<TuneSearch> make_search(SearchKind kind, const TuneCandidates& candidates,
                                        std::size_t start, std::size_t most, std::uint64_t seed);

}  // namespace clora
