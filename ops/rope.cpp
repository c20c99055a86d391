#include "ops/rope.hpp"

#include <limits>

#include "ops/activations.hpp"
#include "ops/variant_launch.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

void require_shapes(const Tensor& y, const Tensor& x, const Tensor& positions,
                    const Tensor& table) {
  require_activation("rope", "x", x, x.shape());
  require(x.shape().rank() == 3 && x.shape().last() % 2 == 0,
          "rope: x must be [T, H, E] with an even head width E, got {}", x.text());
  require_tensor("rope", "y", y, x.shape(), x.type());
  require_tensor("rope", "positions", positions, {x.shape()[0]}, DType::i32);
  require(!table.empty() && table.shape().rank() == 3, "rope: table must be f32 [P, {}, 2], got {}",
          x.shape().last() / 2, table.empty() ? "nothing" : table.text());
  require_tensor("rope", "table", table, {table.shape()[0], x.shape().last() / 2, 2});
}

void test_rope(SelfTest& test) {
  const std::vector<std::int32_t> positions{4, 0, 3, 1, 2};
  record_rope(test.batch(), test.output({5, 2, 38}), test.input({5, 2, 38}),
              test.input({5}, positions), test.input({5, 19, 2}), RopeLayout::half_split,
              RopeDirection::forward);
  record_rope(test.batch(), test.output({5, 2, 38}), test.input({5, 2, 38}),
              test.input({5}, positions), test.input({5, 19, 2}), RopeLayout::interleaved,
              RopeDirection::backward);
}

}  // namespace

Cost rope_cost(const Shape& x, DType type) {
  const auto n = static_cast<double>(x.elements());
  const auto table = static_cast<double>(x[0] * x.last());
  return {3 * n, element_bytes(type) * 2 * n + 4 * (table + static_cast<double>(x[0]))};
}

void record_rope(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& positions,
                 const Tensor& table, RopeLayout layout, RopeDirection direction) {
  require_shapes(y, x, positions, table);
  const std::int64_t tokens = x.shape()[0];
  const std::int64_t pairs = x.elements() / 2;
  require(pairs <= std::numeric_limits<std::int32_t>::max(),
          "rope: at most 2^31 pairs at a time, got {}; take fewer rows", pairs);
  const auto heads = static_cast<std::int32_t>(x.shape()[1]);
  const auto half_width = static_cast<std::int32_t>(x.shape().last() / 2);
  const std::int32_t stride = layout == RopeLayout::half_split ? 1 : 2;
  const std::int32_t partner = layout == RopeLayout::half_split ? half_width : 1;
  const bool forward = direction == RopeDirection::forward;
  const float sign = forward ? 1.0F : -1.0F;
  const VariantKernel kernel = kernel_of("rope", "rope", {{"X_TYPE", x.type()}});
  const bool by_tokens = takes_cpu_kernel(batch.context(), kernel, test_rope);
  Launch launch = by_tokens ? rows_launch(batch.context(), kernel, tokens, half_width, test_rope)
                            : flat_launch(batch.context(), kernel, pairs, half_width, test_rope);
  launch.cost = rope_cost(x.shape(), x.type());
  launch.label = forward ? "rope/forward" : "rope/backward";
  batch.launch(std::move(launch), y, x, positions, table, tokens, heads, half_width, stride,
               partner, sign);
}

}  // namespace clora
