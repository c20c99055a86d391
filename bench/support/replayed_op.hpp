// One small op, launched 16 times in a batch so that waking the device's threads is not what is
// measured, checked against its reference, then timed.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

#include "bench/support/op_bench.hpp"

namespace clora::bench {

inline constexpr std::size_t kLaunches = 16;

// Random values on the host, in double for the reference, and on the device.
struct Operand {
  std::vector<double> values;
  Tensor tensor;

  Operand(Shape shape, std::uint32_t seed) {
    const auto floats = random_values(static_cast<std::size_t>(shape.elements()), seed);
    values.assign(floats.begin(), floats.end());
    tensor = upload(shape, floats);
  }
};

// record(batch) records one launch of `cost` that makes `want` in `output`.
template <class Record>
void time_op(benchmark::State& state, const Tensor& output, std::span<const double> want, Cost cost,
             Record record) {
  Batch batch(context());
  for (std::size_t i = 0; i < kLaunches; ++i) record(batch);
  batch.submit().wait();
  if (check(state, largest_error(context().read<float>(output), want), 1e-5)) {
    time_best_replay(state, batch, kLaunches, cost);
  }
}

// f(state, shape) under the name "NAME/ROWSxWIDTH" for each shape.
template <class F>
bool register_shapes(const std::string& name, std::initializer_list<Shape> shapes, F f) {
  for (const Shape& shape : shapes) {
    std::string full = name;
    for (int i = 0; i < shape.rank(); ++i)
      full += fmt::format("{}{}", i == 0 ? '/' : 'x', shape[i]);
    benchmark::RegisterBenchmark(full.c_str(), f, shape)->UseManualTime()->MinTime(0.15);
  }
  return true;
}

}  // namespace clora::bench
