#include "ops/rope.hpp"

#include "ops/variant_launch.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

void require_shapes(const Tensor& y, const Tensor& x, const Tensor& positions,
                    const Tensor& table) {
  require_tensor("rope", "x", x, x.shape());
  require(x.shape().rank() == 3 && x.shape().last() % 2 == 0,
          "rope: x must be [T, H, E] with an even head width E, got {}", x.text());
  require_tensor("rope", "y", y, x.shape());
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

Cost rope_cost(const Shape& x) {
  const auto n = static_cast<double>(x.elements());
  const auto table = static_cast<double>(x[0] * x.last());
  return {3 * n, 4 * (2 * n + table + static_cast<double>(x[0]))};
}

void record_rope(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& positions,
                 const Tensor& table, RopeLayout layout, RopeDirection direction) {
  require_shapes(y, x, positions, table);
  Context& context = batch.context();
  const std::int64_t tokens = x.shape()[0];
  const auto heads = static_cast<std::int32_t>(x.shape()[1]);
  const auto half_width = static_cast<std::int32_t>(x.shape().last() / 2);
  const std::int32_t stride = layout == RopeLayout::half_split ? 1 : 2;
  const std::int32_t partner = layout == RopeLayout::half_split ? half_width : 1;
  const bool forward = direction == RopeDirection::forward;
  const float sign = forward ? 1.0F : -1.0F;
  const Variant variant = variant_for(context, "rope_cpu.cl", "rope", test_rope);
  Launch launch = variant == Variant::cpu
                      ? rows_launch(context, "rope", "rope", tokens, half_width, test_rope)
                      : flat_launch(context, "rope", "rope", x.elements() / 2, test_rope);
  launch.cost = rope_cost(x.shape());
  launch.label = forward ? "rope/forward" : "rope/backward";
  batch.launch(std::move(launch), y, x, positions, table, tokens, heads, half_width, stride,
               partner, sign);
}

}  // namespace clora
