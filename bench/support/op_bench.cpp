#include "bench/support/op_bench.hpp"

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iostream>
#include <limits>

#include "clora/ops/quant/quant.hpp"
#include "runtime/elapsed.hpp"

namespace clora::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxSets = 1024;
constexpr std::size_t kMaxTurns = 256;
constexpr double kShortestWait = 2e-3;  // seconds between waits; waking threads takes 20-40 us
constexpr double kBf16Tolerance = 2e-2;

// The number of bytes beyond which a cyclic pass finds none of them in a cache.
std::size_t bytes_beyond_caches() {
  constexpr std::size_t kMin = std::size_t{96} << 20, kMax = std::size_t{512} << 20;
  cl_ulong cache = 0;
  clGetDeviceInfo(context().device().id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, sizeof cache, &cache,
                  nullptr);
  return std::clamp(static_cast<std::size_t>(2 * cache), kMin, kMax);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

Tensor BufferSet::keep(const Tensor& tensor) {
  bytes_ += tensor.bytes();
  return tensor;
}

Tensor BufferSet::input(const Shape& shape, std::span<const float> values) {
  return keep(bench_.context().upload(shape, DType::f32, values, MemoryTag::scratch));
}

Tensor BufferSet::input(const Shape& shape, std::span<const std::int32_t> values) {
  return keep(bench_.context().upload(shape, DType::i32, values, MemoryTag::scratch));
}

Tensor BufferSet::weights(const test::WeightMatrix& matrix) {
  Context& context = bench_.context();
  const Shape shape{matrix.rows, matrix.columns};
  return keep(matrix.upload(context, preferred_form(context, shape, matrix.type)));
}

Tensor BufferSet::output(const Shape& shape) {
  const std::vector<float> nans(static_cast<std::size_t>(shape.elements()),
                                std::numeric_limits<float>::quiet_NaN());
  return input(shape, nans);
}

Tensor BufferSet::zeros(const Shape& shape) {
  return input(shape, std::vector<float>(static_cast<std::size_t>(shape.elements())));
}

void BufferSet::expect(const Tensor& result, std::function<std::vector<double>()> want) {
  expect_error([&context = bench_.context(), result, want = std::move(want)] {
    return largest_error(context.read<float>(result), want());
  });
}

void BufferSet::expect_error(std::function<double()> error) {
  if (checks_) bench_.checks_.push_back(std::move(error));
}

void OpBench::accept(double error) {
  const double allowed =
      arithmetic_ == Arithmetic::bf16 ? std::max(tolerance, kBf16Tolerance) : tolerance;
  if (error <= allowed) return;
  failure_ = fmt::format("wrong result: error {:.3g}, at most {:.3g} allowed", error, allowed);
}

bool OpBench::check_first_set(const std::function<void(BufferSet&)>& body) {
  Batch batch(context());
  BufferSet set(*this, batch, true);
  body(set);
  batch.submit().wait();
  if (checks_.empty()) failure_ = "the bench checks no result";
  for (const auto& error : checks_) accept(error());
  checks_.clear();
  first_set_bytes_ = set.bytes_;
  return failure_.empty();
}

std::size_t OpBench::sets_for(std::size_t bytes) const {
  if (warm_) return 1;
  return std::clamp(bytes_beyond_caches() / std::max<std::size_t>(bytes, 1) + 1, std::size_t{1},
                    kMaxSets);
}

void OpBench::record(const std::function<void(BufferSet&)>& body) {
  context().pool().trim();
  if (!check_first_set(body)) return;
  batch_.emplace(context());
  const std::size_t sets = sets_for(first_set_bytes_);
  for (std::size_t i = 0; i < sets; ++i) {
    BufferSet set(*this, *batch_, false);
    body(set);
  }
  ops_ = sets * repeats;
  choose_turns();
}

void OpBench::on_host(std::function<void()> work, double error, std::size_t ops) {
  accept(error);
  ops_ = ops;
  work_ = std::move(work);
  if (failure_.empty()) choose_turns();
}

void OpBench::choose_turns() {
  seconds_of_one_turn();
  const double seconds = std::max(seconds_of_one_turn(), 1e-7);
  turns_ = static_cast<std::size_t>(
      std::clamp(std::ceil(kShortestWait / seconds), 1.0, static_cast<double>(kMaxTurns)));
}

double OpBench::seconds_of_one_turn() {
  const auto begin = Clock::now();
  if (work_) {
    for (std::size_t i = 0; i < turns_; ++i) work_();
  } else {
    for (std::size_t i = 1; i < turns_; ++i) batch_->submit();
    batch_->submit().wait();
  }
  return seconds_since(begin);
}

void OpBench::time(benchmark::State& state) {
  if (!failure_.empty()) return state.SkipWithError(failure_.c_str());
  const std::size_t ops = ops_ * turns_;
  std::vector<double> seconds;
  const std::clock_t processor = std::clock();
  while (state.KeepRunningBatch(static_cast<benchmark::IterationCount>(ops))) {
    const double turn = seconds_of_one_turn();
    state.SetIterationTime(turn);
    seconds.push_back(turn / static_cast<double>(ops));
  }
  const double used = static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC;
  const double core_seconds = used / static_cast<double>(ops * seconds.size());
  report(state, std::move(seconds), core_seconds);
  if (batch_ && wants_profile()) print_profile();
}

void OpBench::print_profile() {
  Profiler& profiler = context().profiler();
  profiler.clear();
  batch_->submit().wait();
  std::cerr << profiler.table(ProfileBy::op, peaks_for(arithmetic_));
  profiler.clear();
}

void OpBench::report(benchmark::State& state, std::vector<double> seconds,
                     double core_seconds) const {
  const double best = *std::ranges::min_element(seconds);
  state.counters["best_us"] = best * 1e6;
  state.counters["median_us"] = median(std::move(seconds)) * 1e6;
  if (batch_) state.counters["scratch_mib"] = static_cast<double>(batch_->planned_bytes()) / 0x1p20;
  if (cost == Cost{}) return;
  state.counters["gflops"] = cost.flops / best * 1e-9;
  state.counters["gbps"] = cost.bytes / best * 1e-9;
  const RooflinePeaks peaks = peaks_for(arithmetic_);
  if (peaks.known()) {
    state.counters["percent_of_roofline"] = 100 * roofline_seconds(cost, peaks) / best;
  }
  if (context().device().kind == DeviceKind::cpu && core_seconds > 0) {
    state.counters["core_gflops"] = cost.flops / core_seconds * 1e-9;
    state.counters["core_gbps"] = cost.bytes / core_seconds * 1e-9;
  }
}

void add_op(const Name& name, Arithmetic arithmetic, std::function<void(OpBench&)> prepare) {
  const bool warm = std::ranges::find(name.words, "warm") != name.words.end();
  add_prepared(name.text(), [=] {
    auto bench = std::make_unique<OpBench>(arithmetic, warm);
    prepare(*bench);
    return bench;
  });
}

}  // namespace clora::bench
