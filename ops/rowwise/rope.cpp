#include "clora/ops/rowwise/rope.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/activations.hpp"
#include "ops/dispatch/variant_launch.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

void require_shapes(const Tensor& y, const Tensor& x, const Tensor& positions,
                    const Tensor& table) {
  require_any_activation("rope", "x", x, x.shape());
  require(x.shape().rank() == 3 && x.shape().last() % 2 == 0,
          "rope: x must be [T, H, E] with an even head dim E, got {}", x.text());
  require_tensor("rope", "y", y, x.shape(), x.type());
  require_tensor("rope", "positions", positions, {x.shape()[0]}, DType::i32);
  const std::int64_t half_dim = x.shape().last() / 2;
  const bool is_table = !table.empty() && table.shape().rank() == 3;
  const std::int64_t pairs = is_table ? std::min(half_dim, table.shape()[1]) : half_dim;
  require(is_table && pairs > 0, "rope: table must be f32 [P, {}, 2], got {}", half_dim,
          table.empty() ? "nothing" : table.text());
  require_tensor("rope", "table", table, {table.shape()[0], pairs, 2});
  require(pairs == half_dim || same_begin(x, y),
          "rope: a table of {} pairs rotates a part of heads of dim {}, so y must be x", pairs,
          x.shape().last());
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

// How the pairs of elements are rotated.
struct Rotation {
  const Tensor& positions;
  const Tensor& table;
  RopeLayout layout;
  RopeDirection direction;

  // Pairs of a head that are rotated.
  std::int32_t half_dim() const { return i32(table.shape()[1]); }
  float sign() const { return direction == RopeDirection::forward ? 1.0F : -1.0F; }
  std::int32_t stride() const { return layout == RopeLayout::half_split ? 1 : 2; }
  std::int32_t partner() const { return layout == RopeLayout::half_split ? half_dim() : 1; }
  std::string label() const {
    return direction == RopeDirection::forward ? "rope/forward" : "rope/backward";
  }
};

// Returns the table of the tensors that have `own`.
const Tensor& table_of(const Tensor& own, const Rotation& rotation) {
  return own.empty() ? rotation.table : own;
}

void require_table(const Tensor& own, const Rotation& rotation) {
  if (!own.empty()) require_tensor("rope", "table", own, rotation.table.shape());
}

void record_cpu(Batch& batch, const VariantKernel& kernel, const RopeTensors& t,
                const Rotation& rotation) {
  const std::int64_t tokens = t.x.shape()[0];
  Launch launch = rows_launch(batch.context(), kernel, tokens, rotation.half_dim(), test_rope);
  launch.cost = rope_cost(t.x.shape());
  launch.label = rotation.label();
  batch.launch(std::move(launch), t.y, t.x, rotation.positions, table_of(t.table, rotation), tokens,
               i32(t.x.shape()[1]), i32(t.x.shape().last()), rotation.half_dim(), rotation.stride(),
               rotation.partner(), rotation.sign());
}

std::uint32_t narrow_pairs(std::int64_t pairs) {
  require(pairs <= std::numeric_limits<std::int32_t>::max(),
          "rope: at most 2^31 pairs at a time, got {}; use fewer rows", pairs);
  return static_cast<std::uint32_t>(pairs);
}

// The last arguments of the portable kernels.
void add_rotation(std::vector<Argument>& arguments, const Rotation& rotation) {
  arguments.insert(arguments.end(),
                   {static_cast<std::uint32_t>(rotation.half_dim()), rotation.stride(),
                    static_cast<std::uint32_t>(rotation.partner()), rotation.sign()});
}

void record_portable(Batch& batch, VariantKernel kernel, const RopeTensors& t,
                     const RopeTensors& more, const Rotation& rotation) {
  const std::int64_t tokens = t.x.shape()[0], width = t.x.shape().last();
  const std::int64_t heads = t.x.shape()[1];
  const bool of_two = !more.x.empty();
  const std::int64_t more_heads = of_two ? more.x.shape()[1] : 0;
  const std::int64_t half_dim = rotation.half_dim();
  const std::uint32_t pairs = narrow_pairs(tokens * (heads + more_heads) * half_dim);
  const bool in_place = same_begin(t.x, t.y) && (!of_two || same_begin(more.x, more.y));
  std::vector<Argument> arguments;
  arguments.reserve(16);
  arguments.emplace_back(t.y);
  if (!in_place) arguments.emplace_back(t.x);
  if (of_two) arguments.emplace_back(more.y);
  if (of_two && !in_place) arguments.emplace_back(more.x);
  arguments.insert(arguments.end(), {rotation.positions, table_of(t.table, rotation)});
  if (of_two) arguments.emplace_back(table_of(more.table, rotation));
  arguments.insert(arguments.end(),
                   {pairs, static_cast<std::uint32_t>(heads),
                    static_cast<std::uint32_t>(more_heads), static_cast<std::uint32_t>(width)});
  add_rotation(arguments, rotation);
  if (in_place) kernel.flags.push_back("IN_PLACE");
  if (of_two) kernel.flags.push_back("OF_TWO");
  Launch launch = flat_launch(batch.context(), kernel, pairs, std::gcd(half_dim, width), test_rope);
  launch.cost = rope_cost({tokens, heads + more_heads, width}, t.x.type());
  launch.label = rotation.label();
  batch.record(std::move(launch), std::move(arguments));
}

// `more` may be empty.
void record_either(Batch& batch, const RopeTensors& t, const RopeTensors& more,
                   const Rotation& rotation) {
  const VariantKernel kernel = kernel_of("rope", "rope", {{"X_TYPE", t.x.type()}});
  if (!takes_cpu_kernel(batch.context(), kernel, test_rope)) {
    record_portable(batch, kernel, t, more, rotation);
    return;
  }
  record_cpu(batch, kernel, t, rotation);
  if (!more.x.empty()) record_cpu(batch, kernel, more, rotation);
}

void require_parts(const RopeOfParts& t, const Rotation& rotation) {
  require_shapes(t.queries, t.queries, rotation.positions, rotation.table);
  const Shape& shape = t.queries.shape();
  require_tensor("rope", "table", rotation.table, {rotation.table.shape()[0], shape.last() / 2, 2});
  const std::int64_t key_heads =
      t.keys.empty() || t.keys.shape().rank() != 3 ? 0 : t.keys.shape()[1];
  require(key_heads > 0 && shape[1] % key_heads == 0,
          "rope: keys must be [{}, G, {}] with G a divisor of {}, got {}", shape[0], shape[2],
          shape[1], t.keys.empty() ? "nothing" : t.keys.text());
  const DType type = t.queries.type();
  const Shape of_keys{shape[0], key_heads, shape[2]};
  require_tensor("rope", "keys", t.keys, of_keys, type);
  require_tensor("rope", "values", t.values, of_keys, type);
  require_tensor("rope", "key_parts", t.key_parts, shape, type);
  require_tensor("rope", "value_parts", t.value_parts, shape, type);
  require_table(t.key_table, rotation);
  for (const Tensor* part : {&t.key_parts, &t.value_parts}) {
    for (const Tensor* output : {&t.queries, &t.keys, &t.values}) {
      require(!overlap(*part, *output), "rope: parts must not overlap the outputs");
    }
  }
}

}  // namespace

Cost rope_cost(const Shape& x, DType type) {
  const auto n = static_cast<double>(x.elements());
  const auto table = static_cast<double>(x[0] * x.last());
  return {3 * n, element_bytes(type) * 2 * n + 4 * (table + static_cast<double>(x[0]))};
}

// The parts of keys and values are read, the sums written.
Cost rope_of_parts_cost(const Shape& queries, std::int64_t key_heads, DType type) {
  Cost cost = rope_cost({queries[0], queries[1] + key_heads, queries[2]}, type);
  const auto parts = static_cast<double>(queries.elements());
  const auto sums = static_cast<double>(queries[0] * key_heads * queries[2]);
  cost.flops += 2 * (parts - sums);
  cost.bytes += element_bytes(type) * 2 * parts;  // keys are read as parts, values are only written
  return cost;
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
  require(second.x.type() == first.x.type(), "rope: both x must have the same type, got {} and {}",
          first.x.text(), second.x.text());
  const Rotation rotation{positions, table, layout, direction};
  for (const RopeTensors* each : {&first, &second}) require_table(each->table, rotation);
  record_either(batch, first, second, rotation);
}

void record_rope_of_parts(Batch& batch, const RopeOfParts& t, const Tensor& positions,
                          const Tensor& table, RopeLayout layout, RopeDirection direction) {
  const Rotation rotation{positions, table, layout, direction};
  require_parts(t, rotation);
  const Shape& shape = t.queries.shape();
  const std::int64_t tokens = shape[0], heads = shape[1], key_heads = t.keys.shape()[1];
  const auto half_dim = static_cast<std::uint32_t>(shape.last() / 2);
  const std::uint32_t pairs = narrow_pairs(tokens * (heads + 2 * key_heads) * half_dim);
  const VariantKernel kernel{
      .stem = "rope", .function = "rope_of_parts", .types = {{"X_TYPE", t.queries.type()}}};
  std::vector<Argument> arguments{t.queries,
                                  t.keys,
                                  t.values,
                                  t.key_parts,
                                  t.value_parts,
                                  positions,
                                  table,
                                  table_of(t.key_table, rotation),
                                  pairs,
                                  static_cast<std::uint32_t>(tokens),
                                  static_cast<std::uint32_t>(heads),
                                  static_cast<std::uint32_t>(key_heads)};
  add_rotation(arguments, rotation);
  Launch launch = flat_launch(batch.context(), kernel, pairs, half_dim, test_rope);
  launch.cost = rope_of_parts_cost(shape, key_heads, t.queries.type());
  launch.label = rotation.label();
  batch.record(std::move(launch), std::move(arguments));
}

}  // namespace clora
