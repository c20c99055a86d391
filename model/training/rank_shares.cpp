#include "clora/model/training/rank_shares.hpp"

#include <numeric>

namespace clora {

MicroBatchRange range_of_rank(std::size_t count, std::span<const std::int64_t> shares,
                              std::size_t rank) {
  const std::int64_t all = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  const auto place_after = [&](std::size_t ranks) {
    const auto part = shares.first(ranks);
    const std::int64_t before = std::accumulate(part.begin(), part.end(), std::int64_t{0});
    return static_cast<std::size_t>(static_cast<std::int64_t>(count) * before / all);
  };
  return {place_after(rank), place_after(rank + 1)};
}

// Greedy: each next micro-batch goes to the rank that is done with it first.
std::vector<std::int64_t> shares_by_speed(std::span<const double> seconds, std::int64_t count) {
  std::vector<std::int64_t> shares(seconds.size(), 0);
  const auto done = [&](std::size_t rank) {
    return static_cast<double>(shares[rank] + 1) * seconds[rank];
  };
  for (std::int64_t i = 0; i < count; ++i) {
    std::size_t first = 0;
    for (std::size_t rank = 1; rank < shares.size(); ++rank) {
      if (done(rank) < done(first)) first = rank;
    }
    ++shares[first];
  }
  return shares;
}

}  // namespace clora
