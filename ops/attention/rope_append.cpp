#include "clora/ops/attention/rope_append.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string>

#include "clora/ops/attention/attention.hpp"
#include "ops/activations.hpp"
#include "ops/attention/attention_spec.hpp"
#include "ops/dispatch/cpu_kernel.hpp"
#include "ops/dispatch/cpu_vector_defines.hpp"
#include "ops/dispatch/variant_launch.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::string_view kOp = "rope append";

// Pairs of elements per head that are rotated, at most E/2.
std::int64_t rotated_pairs(const RopeAppend& t) { return t.table.shape()[1]; }

const Tensor& key_table(const RopeAppend& t) { return t.key_table.empty() ? t.table : t.key_table; }

void require_rows(const RopeAppend& t) {
  require(!t.queries.empty() && t.queries.shape().rank() == 3 && t.queries.elements() > 0 &&
              t.queries.shape().last() % 2 == 0,
          "{}: queries must be f32, bf16 or f16 [T, H, E] with an even head dim E, got {}", kOp,
          t.queries.empty() ? "nothing" : t.queries.text());
  const std::int64_t T = t.queries.shape()[0], H = t.queries.shape()[1], E = t.queries.shape()[2];
  require(!t.keys.empty() && t.keys.shape().rank() == 3 && t.keys.elements() > 0,
          "{}: keys must be [{}, G, {}], got {}", kOp, T, E,
          t.keys.empty() ? "nothing" : t.keys.text());
  const std::int64_t G = t.keys.shape()[1];
  require_any_activation(kOp, "queries", t.queries, {T, H, E});
  require_tensor(kOp, "keys", t.keys, {T, G, E}, t.queries.type());
  require_tensor(kOp, "values", t.values, {T, G, E}, t.queries.type());
  require_tensor(kOp, "positions", t.positions, {T}, DType::i32);
  require_tensor(kOp, "slots", t.slots, {T}, DType::i32);
}

void require_tables(const RopeAppend& t) {
  const std::int64_t half_dim = t.queries.shape().last() / 2;
  const bool is_table = !t.table.empty() && t.table.shape().rank() == 3;
  const std::int64_t pairs = is_table ? std::min(half_dim, t.table.shape()[1]) : half_dim;
  require(is_table && pairs > 0, "{}: table must be f32 [P, {}, 2], got {}", kOp, half_dim,
          t.table.empty() ? "nothing" : t.table.text());
  require_tensor(kOp, "table", t.table, {t.table.shape()[0], pairs, 2});
  if (!t.key_table.empty()) require_tensor(kOp, "key_table", t.key_table, t.table.shape());
}

void require_caches(const RopeAppend& t) {
  const std::int64_t G = t.keys.shape()[1], E = t.keys.shape()[2];
  require(!t.key_cache.empty() && t.key_cache.shape().rank() == 3,
          "{}: key_cache must be f32, bf16, f16 or q8_0 [S, {}, {}], got {}", kOp, G, E,
          t.key_cache.empty() ? "nothing" : t.key_cache.text());
  const Shape shape{t.key_cache.shape()[0], G, E};
  if (t.key_cache.type() == DType::q8_0) {
    require_q8_heads(kOp, E);
    require_tensor(kOp, "key_cache", t.key_cache, shape, DType::q8_0);
  } else {
    require_any_activation(kOp, "key_cache", t.key_cache, shape);
  }
  require_tensor(kOp, "value_cache", t.value_cache, shape, t.key_cache.type());
  for (const Tensor* cache : {&t.key_cache, &t.value_cache}) {
    for (const Tensor* rows : {&t.queries, &t.keys, &t.values}) {
      require(!overlap(*cache, *rows), "{}: the caches must not overlap the rows", kOp);
    }
  }
}

// Five tokens, of which two have no slot.
void test_rope_append(SelfTest& test, DType cache_type) {
  const std::vector<std::int32_t> positions{4, 0, 3, 1, 2}, slots{5, -1, 0, 3, 6};
  const std::int64_t E = cache_type == DType::q8_0 ? 64 : 38, pairs = E / 2;
  const auto cache = [&] { return test.changed(test.input({6, 2, E}, 1, cache_type)); };
  for (const RopeLayout layout : {RopeLayout::half_split, RopeLayout::interleaved}) {
    record_rope_append(test.batch(),
                       {.queries = test.changed(test.input({5, 3, E})),
                        .keys = test.changed(test.input({5, 2, E})),
                        .values = test.input({5, 2, E}),
                        .key_cache = cache(),
                        .value_cache = cache(),
                        .positions = test.input({5}, positions),
                        .slots = test.input({5}, slots),
                        .table = test.input({5, pairs, 2})},
                       layout);
  }
}

// For each type of caches it is another program. Two kernels may round a key to neighbours.
bool takes_cpu_rope_append(Context& context, const RopeAppend& t) {
  if (t.keys.type() != DType::f32) return false;
  const DType type = t.key_cache.type();
  const std::string name = fmt::format("rope_append_cpu {} keys", name_of(type));
  const double tolerance = type == DType::f32 ? kF32Tolerance : kBf16Tolerance;
  return takes_cpu_kernel(context, {"rope_append", "rope_append_cpu.cl", name, tolerance},
                          [type](SelfTest& test) { test_rope_append(test, type); });
}

// Where the two elements of pair i are: i * stride and i * stride + partner.
struct Pairs {
  std::int32_t stride, partner;
};
Pairs pairs_of(const RopeAppend& t, RopeLayout layout) {
  if (layout == RopeLayout::interleaved) return {2, 1};
  return {1, i32(rotated_pairs(t))};
}

Cost cost_of(const RopeAppend& t) {
  return rope_append_cost(t.queries.shape(), t.keys.shape()[1], t.keys.type(), t.key_cache.type());
}

void record_cpu(Batch& batch, const RopeAppend& t, RopeLayout layout) {
  const Shape& shape = t.queries.shape();
  const Device& device = batch.context().device();
  Defines defines;
  defines.set("KEY_TYPE", name_of(t.key_cache.type()));
  define_cpu_vectors(defines, device);
  const auto [stride, partner] = pairs_of(t, layout);
  batch.launch({batch.context().kernel("rope_append_cpu.cl", "rope_append_cpu", defines),
                single_item_groups(cpu_groups(device, shape[0])), cost_of(t), "rope append"},
               t.queries, t.keys, t.values, t.key_cache, t.value_cache, t.positions, t.slots,
               t.table, key_table(t), shape[0], i32(shape[1]), i32(t.keys.shape()[1]),
               i32(shape[2]), i32(rotated_pairs(t)), stride, partner, i32(t.key_cache.shape()[0]));
}

void record_portable(Batch& batch, const RopeAppend& t, RopeLayout layout) {
  const Shape& shape = t.queries.shape();
  const std::int64_t T = shape[0], H = shape[1], G = t.keys.shape()[1], half_dim = shape[2] / 2;
  const std::int64_t pairs = T * (H + 2 * G) * half_dim;
  require(pairs <= std::numeric_limits<std::int32_t>::max(),
          "{}: at most 2^31 pairs at a time, got {}; use fewer rows", kOp, pairs);
  const VariantKernel kernel{
      .stem = "rope_append",
      .function = "rope_append",
      .types = {{"X_TYPE", t.keys.type()}, {"CACHE_TYPE", t.key_cache.type()}}};
  Launch launch =
      flat_launch(batch.context(), kernel, pairs, std::gcd(half_dim, rotated_pairs(t)), {});
  launch.cost = cost_of(t);
  launch.label = "rope append";
  const auto u32 = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  const auto [stride, partner] = pairs_of(t, layout);
  batch.launch(std::move(launch), t.queries, t.keys, t.values, t.key_cache, t.value_cache,
               t.positions, t.slots, t.table, key_table(t), u32(pairs), u32(H), u32(G),
               u32(shape[2]), u32(rotated_pairs(t)), stride, u32(partner),
               i32(t.key_cache.shape()[0]));
}

void record_ops(Batch& batch, const RopeAppend& t, RopeLayout layout) {
  record_rope_of_two(batch, {t.queries, t.queries}, {t.keys, t.keys, t.key_table}, t.positions,
                     t.table, layout, RopeDirection::forward);
  record_cache_append(batch, t.key_cache, t.keys, t.slots);
  record_cache_append(batch, t.value_cache, t.values, t.slots);
}

}  // namespace

Cost rope_append_cost(const Shape& queries, std::int64_t key_heads, DType type, DType cache_type) {
  Cost cost = rope_cost({queries[0], queries[1] + key_heads, queries[2]}, type);
  const auto rows = static_cast<std::size_t>(queries[0] * key_heads * queries[2]);
  // Values are read; keys and values are written, to the slot of each token, which is read.
  cost.bytes += static_cast<double>(bytes_of(type, rows) + 2 * bytes_of(cache_type, rows)) +
                4 * static_cast<double>(queries[0]);
  return cost;
}

void record_rope_append(Batch& batch, const RopeAppend& t, RopeLayout layout) {
  require_rows(t);
  require_tables(t);
  require_caches(t);
  if (takes_cpu_rope_append(batch.context(), t)) return record_cpu(batch, t, layout);
  if (t.key_cache.type() == DType::q8_0) return record_ops(batch, t, layout);
  record_portable(batch, t, layout);
}

}  // namespace clora
