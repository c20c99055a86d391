#include "tools/clc/tune/tune_search.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace clora {
namespace {

using Random = std::mt19937_64;

// A reproducible number below `end`; std::uniform_int_distribution depends on the library.
std::size_t below(Random& random, std::size_t end) {
  return static_cast<std::size_t>(random() % end);
}
double unit(Random& random) { return static_cast<double>(random() >> 11U) * 0x1p-53; }

class InOrder : public TuneSearch {
 public:
  InOrder(std::size_t candidates, std::size_t most) : order_(candidates), most_(most) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }
  void shuffle(std::uint64_t seed) {
    Random random(seed);
    for (std::size_t i = order_.size(); i > 1; --i) {
      std::swap(order_[i - 1], order_[below(random, i)]);
    }
  }

  std::optional<std::size_t> next() override {
    if (tried_ == std::min(most_, order_.size())) return std::nullopt;
    return order_[tried_++];
  }
  void add_result(std::size_t, std::optional<double>) override {}

 private:
  std::vector<std::size_t> order_;
  std::size_t most_;
  std::size_t tried_ = 0;
};

// Simulated annealing. The temperature is relative to the current time: a candidate slower by that
// fraction is accepted with probability 1/e. It falls linearly from 0.5 to 0.01. If all neighbours
// are known, the walk continues from a random candidate.
class Annealing : public TuneSearch {
 public:
  Annealing(const TuneCandidates& candidates, std::size_t start, std::size_t most,
            std::uint64_t seed)
      : candidates_(candidates),
        known_(candidates.all.size()),
        most_(std::min(most, candidates.all.size())),
        here_(start),
        random_(seed) {}

  std::optional<std::size_t> next() override {
    if (tried_ == most_) return std::nullopt;
    const std::size_t candidate = tried_ == 0 ? here_ : unknown_near(here_);
    known_[candidate] = true;
    ++tried_;
    return candidate;
  }

  void add_result(std::size_t candidate, std::optional<double> seconds) override {
    if (!seconds) return;
    const double rise = here_seconds_ > 0 ? *seconds / here_seconds_ - 1 : -1;
    if (rise > 0 && unit(random_) >= std::exp(-rise / temperature())) return;
    here_ = candidate;
    here_seconds_ = *seconds;
  }

 private:
  static constexpr double kHot = 0.5, kCold = 0.01;

  double temperature() const {
    return kHot + (kCold - kHot) * static_cast<double>(tried_) / static_cast<double>(most_);
  }

  std::size_t unknown_near(std::size_t from) {
    std::vector<std::size_t> near = candidates_.neighbours(from);
    std::erase_if(near, [&](std::size_t each) { return known_[each]; });
    if (near.empty()) {
      near.resize(candidates_.all.size());
      std::iota(near.begin(), near.end(), std::size_t{0});
      std::erase_if(near, [&](std::size_t each) { return known_[each]; });
    }
    return near[below(random_, near.size())];
  }

  const TuneCandidates& candidates_;
  std::vector<bool> known_;
  std::size_t most_;
  std::size_t here_;
  Random random_;
  std::size_t tried_ = 0;
  double here_seconds_ = 0;
};

}  // namespace

SearchKind search_kind(std::string_view name) {
  if (name == "random") return SearchKind::random;
  return name == "annealing" ? SearchKind::annealing : SearchKind::exhaustive;
}

std::unique_ptr<TuneSearch> make_search(SearchKind kind, const TuneCandidates& candidates,
                                        std::size_t start, std::size_t most, std::uint64_t seed) {
  if (kind == SearchKind::annealing) {
    return std::make_unique<Annealing>(candidates, start, most, seed);
  }
  auto search = std::make_unique<InOrder>(candidates.all.size(), most);
  if (kind == SearchKind::random) search->shuffle(seed);
  return search;
}

}  // namespace clora
