// Operands of large models' shapes for GPUs, in f32 or bf16. Their values repeat, so creating them
// takes no longer than storing them. Results are compared in their last rows only, because full
// references would take hours.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bench/support/op_bench.hpp"
#include "clora/runtime/memory/dtype.hpp"
#include "clora/runtime/memory/shape.hpp"

namespace clora::bench {

// Whether benches of large models' shapes are registered: on GPUs with a matrix unit, or if
// CLORA_BENCH_LARGE is set.
bool wants_large();

// Uniform values in [-scale, scale) that are exact in bf16, stored as `type` (f32 or bf16). They
// repeat with a prime period, so no two rows are equal.
class Bulk {
 public:
  Bulk(const Shape& shape, DType type, std::uint32_t seed, float scale = 1);

  const Shape& shape() const { return shape_; }
  double at(std::size_t element) const;
  // `count` elements from `first` on.
  std::vector<double> part(std::size_t first, std::size_t count) const;
  // Row r of the last dimension; the last row.
  std::vector<double> row(std::int64_t r) const;
  std::vector<double> last_row() const { return row(shape_.elements() / shape_.last() - 1); }

  Tensor upload(BufferSet& set) const;
  // Uploads a frozen matrix in the layout that the Context prefers.
  Tensor upload_weights(BufferSet& set) const;

 private:
  std::vector<std::uint8_t> bytes() const;
  Shape shape_;
  DType type_;
  std::vector<std::uint16_t> period_;  // bf16
};

// An output of f32 or bf16, filled with NaN.
Tensor bulk_output(BufferSet& set, const Shape& shape, DType type);

// The last `count` elements of an f32 or bf16 tensor.
std::vector<float> last_of(Context& context, const Tensor& tensor, std::size_t count);

// Compares the last elements of the result with those that want() returns.
void expect_last(BufferSet& set, const Tensor& result, std::function<std::vector<double>()> want);

}  // namespace clora::bench
