#include "ops/cast.hpp"

#include "ops/launch_shape.hpp"
#include "ops/variant_launch.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

// Over several groups, each way alone.
void test_cast(SelfTest& test, bool rounds) {
  const Shape shape{1, 9001};
  if (rounds) {
    record_cast(test.batch(), test.output(shape, DType::bf16), test.input(shape));
  } else {
    record_cast(test.batch(), test.output(shape), test.weights(shape, DType::bf16));
  }
}

}  // namespace

Cost cast_cost(const Shape& shape) {
  const auto n = static_cast<double>(shape.elements());
  return {4 * n, 6 * n};
}

void record_cast(Batch& batch, const Tensor& y, const Tensor& x) {
  require(!x.empty() && (x.type() == DType::f32 || x.type() == DType::bf16),
          "cast: x must be f32 or bf16, got {}", x.empty() ? "nothing" : x.text());
  const bool rounds = x.type() == DType::f32;
  require_tensor("cast", "x", x, x.shape(), x.type());
  require_tensor("cast", "y", y, x.shape(), rounds ? DType::bf16 : DType::f32);
  require(!overlap(y, x), "cast: y must not alias x");
  const std::int64_t n = x.elements();
  const std::string_view function = rounds ? "cast_to_bf16" : "cast_from_bf16";
  Launch launch = flat_launch(batch.context(), "cast", function, n,
                              [rounds](SelfTest& test) { test_cast(test, rounds); });
  launch.cost = cast_cost(x.shape());
  launch.label = rounds ? "cast/to bf16" : "cast/from bf16";
  batch.launch(std::move(launch), y, x, n);
}

}  // namespace clora
