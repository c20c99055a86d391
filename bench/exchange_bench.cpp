// What the ranks of a training exchange through host memory, between threads of this process:
//   exchange/fused/f32/RANKSxN   N gradients are added up over the ranks, as after each block of
//                                a backward (Communicator::sum())
// Checks the sums first. Times are from a common start until the last rank has its sums. gbps: of
// the gradients that all ranks give and get. Ranks beyond the processors of the machine are left
// out. The times do not contain the copies from and to the device.
#include <algorithm>
#include <thread>

#include "bench/support/name.hpp"
#include "bench/support/prepared.hpp"
#include "clora/model/training/thread_ranks.hpp"
#include "runtime/elapsed.hpp"

namespace clora::bench {
namespace {

constexpr int kRounds = 41;

// Returns the seconds of each round as rank 0 saw them, or none if the sums were wrong.
std::vector<double> seconds_of_sums(int ranks, std::size_t elements) {
  std::vector<double> seconds;
  run_thread_ranks(ranks, [&](Communicator& communicator) {
    const auto own = static_cast<float>(communicator.rank() + 1);
    std::vector<float> values(elements, own);
    communicator.sum(values);
    const auto wanted = static_cast<float>(ranks * (ranks + 1) / 2);
    const bool wrong =
        std::ranges::any_of(values, [wanted](float value) { return value != wanted; });
    if (any_rank(communicator, wrong)) return;
    for (int round = 0; round < kRounds; ++round) {
      std::ranges::fill(values, own);
      (void)communicator.all_gather("");  // all begin together
      const auto begin = std::chrono::steady_clock::now();
      communicator.sum(values);
      if (communicator.rank() == 0) seconds.push_back(seconds_since(begin));
    }
  });
  return seconds;
}

class ExchangeBench : public Prepared {
 public:
  ExchangeBench(int ranks, std::int64_t elements)
      : bytes_(2.0 * ranks * static_cast<double>(elements) * sizeof(float)),
        seconds_(seconds_of_sums(ranks, static_cast<std::size_t>(elements))) {
    std::ranges::sort(seconds_);
  }

  void time(benchmark::State& state) override {
    if (seconds_.empty()) return state.SkipWithError("the sums are wrong");
    const double median = seconds_[seconds_.size() / 2];
    for (auto _ : state) state.SetIterationTime(median);
    state.counters["median_us"] = median * 1e6;
    state.counters["gbps"] = bytes_ / median * 1e-9;
  }

 private:
  double bytes_;
  std::vector<double> seconds_;
};

const bool kAdded = add_family([] {
  // Adapters of rank 16 on a block of a model of 0.5B and of 7B parameters.
  for (const std::int64_t elements : {366592, 1441792}) {
    for (const int ranks : {2, 4, 8}) {
      if (static_cast<unsigned>(ranks) > std::thread::hardware_concurrency()) continue;
      const Name name{.op = "exchange", .shape = {ranks, elements}};
      add_prepared(name.text(), [=] { return std::make_unique<ExchangeBench>(ranks, elements); });
    }
  }
});

}  // namespace
}  // namespace clora::bench
