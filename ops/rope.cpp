#include "ops/rope.hpp"

#include <limits>

#include "ops/activations.hpp"
#include "ops/reduction_grid.hpp"
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

// What turns the pairs.
struct Turn {
  const Tensor& positions;
  const Tensor& table;
  RopeLayout layout;
  RopeDirection direction;

  float sign() const { return direction == RopeDirection::forward ? 1.0F : -1.0F; }
  std::int32_t stride() const { return layout == RopeLayout::half_split ? 1 : 2; }
  std::int32_t partner(std::int32_t half_width) const {
    return layout == RopeLayout::half_split ? half_width : 1;
  }
  std::string label() const {
    return direction == RopeDirection::forward ? "rope/forward" : "rope/backward";
  }
};

void record_cpu(Batch& batch, const VariantKernel& kernel, const RopeTensors& t, const Turn& turn) {
  const std::int64_t tokens = t.x.shape()[0];
  const auto half_width = static_cast<std::int32_t>(t.x.shape().last() / 2);
  Launch launch = rows_launch(batch.context(), kernel, tokens, half_width, test_rope);
  launch.cost = rope_cost(t.x.shape());
  launch.label = turn.label();
  batch.launch(std::move(launch), t.y, t.x, turn.positions, turn.table, tokens,
               static_cast<std::int32_t>(t.x.shape()[1]), half_width, turn.stride(),
               turn.partner(half_width), turn.sign());
}

void record_portable(Batch& batch, const VariantKernel& kernel, const RopeTensors& t,
                     const RopeTensors& more, const Turn& turn) {
  const std::int64_t tokens = t.x.shape()[0], width = t.x.shape().last();
  const std::int64_t heads = t.x.shape()[1];
  const std::int64_t more_heads = more.x.empty() ? 0 : more.x.shape()[1];
  const std::int64_t pairs = tokens * (heads + more_heads) * (width / 2);
  require(pairs <= std::numeric_limits<std::int32_t>::max(),
          "rope: at most 2^31 pairs at a time, got {}; take fewer rows", pairs);
  const auto half_width = static_cast<std::uint32_t>(width / 2);
  Launch launch = flat_launch(batch.context(), kernel, pairs, half_width, test_rope);
  launch.cost = rope_cost({tokens, heads + more_heads, width}, t.x.type());
  launch.label = turn.label();
  const RopeTensors& second = more_heads > 0 ? more : t;  // a kernel argument must not be null
  batch.launch(std::move(launch), t.y, t.x, second.y, second.x, turn.positions, turn.table,
               static_cast<std::uint32_t>(pairs), static_cast<std::uint32_t>(heads),
               static_cast<std::uint32_t>(more_heads), half_width, turn.stride(),
               static_cast<std::uint32_t>(turn.partner(static_cast<std::int32_t>(half_width))),
               turn.sign());
}

// `more` may be empty.
void record_either(Batch& batch, const RopeTensors& t, const RopeTensors& more, const Turn& turn) {
  const VariantKernel kernel = kernel_of("rope", "rope", {{"X_TYPE", t.x.type()}});
  if (!takes_cpu_kernel(batch.context(), kernel, test_rope)) {
    record_portable(batch, kernel, t, more, turn);
    return;
  }
  record_cpu(batch, kernel, t, turn);
  if (!more.x.empty()) record_cpu(batch, kernel, more, turn);
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
  record_either(batch, {y, x}, {}, {positions, table, layout, direction});
}

void record_rope_of_two(Batch& batch, const RopeTensors& first, const RopeTensors& second,
                        const Tensor& positions, const Tensor& table, RopeLayout layout,
                        RopeDirection direction) {
  require_shapes(first.y, first.x, positions, table);
  require_shapes(second.y, second.x, positions, table);
  require(second.x.type() == first.x.type(), "rope: both x must be of one type, got {} and {}",
          first.x.text(), second.x.text());
  record_either(batch, first, second, {positions, table, layout, direction});
}

}  // namespace clora
