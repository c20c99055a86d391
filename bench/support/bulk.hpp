// Operands of large models' shapes, for GPUs: values that repeat, so that making them takes no
// longer than storing them, in f32 or bf16; and the comparison of results in their last rows, as
// whole references would take hours.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bench/support/op_bench.hpp"
#include "runtime/dtype.hpp"
#include "runtime/shape.hpp"

namespace clora::bench {

// Whether benches of large models' shapes are registered: on GPUs with a matrix unit, and where
// CLORA_BENCH_LARGE is set.
bool wants_large();

// Uniform values in [-scale, scale) that bf16 holds, stored as `type` (f32 or bf16). They repeat
// after a prime number of elements, so that no two rows are alike.
class Bulk {
 public:
  Bulk(const Shape& shape, DType type, std::uint32_t seed, float scale = 1);

  const Shape& shape() const { return shape_; }
  double at(std::size_t element) const;
  // So many elements from the first on.
  std::vector<double> part(std::size_t first, std::size_t count) const;
  // Row r of the last dimension; the last one.
  std::vector<double> row(std::int64_t r) const;
  std::vector<double> last_row() const { return row(shape_.elements() / shape_.last() - 1); }

  Tensor upload(BufferSet& set) const;
  // As a frozen matrix, laid out as serves the Context best.
  Tensor upload_weights(BufferSet& set) const;

 private:
  std::vector<std::uint8_t> bytes() const;
  Shape shape_;
  DType type_;
  std::vector<std::uint16_t> period_;  // bf16
};

// Where a result of f32 or bf16 goes: NaN at first.
Tensor bulk_output(BufferSet& set, const Shape& shape, DType type);

// The last `count` elements of a tensor of f32 or bf16.
std::vector<float> last_of(Context& context, const Tensor& tensor, std::size_t count);

// The last elements of the result are compared with what want() gives.
void expect_last(BufferSet& set, const Tensor& result, std::function<std::vector<double>()> want);

}  // namespace clora::bench
