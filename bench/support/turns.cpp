#include "bench/support/turns.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

#include "clora/runtime/error.hpp"
#include "runtime/elapsed.hpp"

namespace clora::bench {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

// The order changes in each round, because the preceding variant leaves the device's threads awake
// or asleep.
TurnsTable::Run TurnsTable::take_turns() {
  const std::vector<Way> ways = make_();
  first_ = ways.front().name;
  Run run;
  for (const Way& way : ways) {
    way.run();
    run[way.name].wrong = !way.right();
  }
  std::vector<std::size_t> order(ways.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 generator(1);
  for (int round = 0; round < rounds_; ++round) {
    std::ranges::shuffle(order, generator);
    for (const std::size_t i : order) {
      const auto begin = Clock::now();
      ways[i].run();
      run[ways[i].name].seconds.push_back(seconds_since(begin));
    }
  }
  return run;
}

void TurnsTable::report(benchmark::State& state, const std::string& name) {
  const std::size_t repetition = reported_[name]++;
  if (repetition == runs_.size()) runs_.push_back(take_turns());
  const Run& run = runs_[repetition];
  const Times& times = run.at(name);
  if (times.wrong) return state.SkipWithError("wrong result");
  const double typical = median(times.seconds);
  for (auto _ : state) state.SetIterationTime(typical);
  state.counters["median_us"] = typical / per_run_ * 1e6;
  state.counters["best_us"] = *std::ranges::min_element(times.seconds) / per_run_ * 1e6;
  state.counters["ratio"] = typical / median(run.at(first_).seconds);
}

void TurnsTable::add(const std::string& name) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [this, name](benchmark::State& state) {
                                 try {
                                   report(state, name);
                                 } catch (const Error& error) {
                                   state.SkipWithError(error.what());
                                 }
                               })
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace clora::bench
