// What every op bench shares: a Context, recorded batches that are replayed, counters.
//
// A bench checks its result against the double reference before it times anything, and then times
// whole replays: submit and wait. Small ops put several launches into one batch (`copies`), so that
// the wake-up of the device's threads is not what is measured.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "runtime/batch.hpp"
#include "runtime/context.hpp"

namespace clora::bench {

// The Context of the environment's device and variant, made at first use.
inline Context& context() {
  static Context shared(config_from_environment());
  return shared;
}

// Uniform values in [-1, 1), the same for a seed on every machine.
inline std::vector<float> random_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(generator() >> 8U) * 0x1p-23F - 1.0F;
  return values;
}

inline Tensor upload(Shape shape, std::span<const float> values) {
  return context().upload(shape, DType::f32, values, MemoryTag::scratch);
}
inline Tensor upload(Shape shape, std::span<const std::int32_t> values) {
  return context().upload(shape, DType::i32, values, MemoryTag::scratch);
}
inline Tensor zeros(Shape shape) {
  return upload(shape, std::vector<float>(static_cast<std::size_t>(shape.elements())));
}
inline std::vector<double> to_double(std::span<const float> values) {
  return {values.begin(), values.end()};
}

// The largest |got - want| relative to the largest |want|.
inline double largest_error(std::span<const float> got, std::span<const double> want) {
  double scale = 0, error = got.size() == want.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    scale = std::max(scale, std::abs(want[i]));
    const double difference = std::abs(static_cast<double>(got[i]) - want[i]);
    if (!(difference <= error)) error = std::isnan(difference) ? INFINITY : difference;
  }
  return scale > 0 ? error / scale : error;
}

// Skips the bench with a message where the result is wrong; true where it is right.
inline bool check(benchmark::State& state, double error, double tolerance = 1e-4) {
  if (error <= tolerance) return true;
  state.SkipWithError(("wrong result, relative error " + std::to_string(error)).c_str());
  return false;
}

// Times replays of a batch of `copies` times what record(batch) records. Counters: gflops and gbps
// of `cost`, the cost of one copy; us, the time of one.
template <class Record>
void time_replays(benchmark::State& state, Cost cost, int copies, Record record) {
  Batch batch(context());
  for (int i = 0; i < copies; ++i) record(batch);
  batch.submit().wait();
  for (auto _ : state) batch.submit().wait();
  const double runs = static_cast<double>(state.iterations()) * copies;
  using benchmark::Counter;
  state.counters["gflops"] = Counter(cost.flops * runs * 1e-9, Counter::kIsRate);
  state.counters["gbps"] = Counter(cost.bytes * runs * 1e-9, Counter::kIsRate);
  state.counters["us"] = Counter(runs * 1e-6, Counter::kIsRate | Counter::kInvert);
}

// Times replays of a batch that holds `launches` launches of `cost`; for benches registered with
// UseManualTime(). Counters of one launch: gflops and gbps of the best replay (other programs only
// ever make one slower), mean_us, and core_gflops and core_gbps by processor time of this process,
// which other programs on a shared CPU hardly change.
inline void time_best_replay(benchmark::State& state, Batch& batch, std::size_t launches,
                             Cost cost) {
  using Clock = std::chrono::steady_clock;
  const auto count = static_cast<double>(launches);
  double best = std::numeric_limits<double>::max();
  double sum = 0;
  batch.submit().wait();
  const std::clock_t processor = std::clock();
  for (auto _ : state) {
    const auto begin = Clock::now();
    batch.submit().wait();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    state.SetIterationTime(seconds);
    best = std::min(best, seconds / count);
    sum += seconds;
  }
  const double runs = count * static_cast<double>(state.iterations());
  const double used = static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC / runs;
  state.counters["gflops"] = cost.flops / best * 1e-9;
  state.counters["gbps"] = cost.bytes / best * 1e-9;
  state.counters["core_gflops"] = cost.flops / used * 1e-9;
  state.counters["core_gbps"] = cost.bytes / used * 1e-9;
  state.counters["mean_us"] = sum / runs * 1e6;
}

}  // namespace clora::bench
