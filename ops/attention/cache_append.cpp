#include <string>

#include "clora/ops/quant/quantise.hpp"
#include "ops/activations.hpp"
#include "ops/attention/attention_self_test.hpp"
#include "ops/dispatch/cpu_kernel.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

void test_append(SelfTest& test, DType type) {
  const std::vector<std::int32_t> positions{3, -1, 0, 5, 6, 2};
  const std::int64_t width = type == DType::q8_0 ? kElementsOfQ8Block : 20;
  record_cache_append(test.batch(), test.changed(test.input({6, 2, width}, 1, type)),
                      test.input({6, 2, width}), test.input({6}, positions));
}

// Whether the kernel for CPU devices is taken; for each type of caches it is another program.
bool takes_cpu_append(Context& context, const AttentionSpec& spec, DType rows) {
  if (rows != DType::f32) return false;
  const std::string name = "cache_append_cpu" + key_suffix(spec);
  return takes_cpu_kernel(context, {"cache_append", "attention_decode_cpu.cl", name},
                          [&](SelfTest& test) { test_append(test, spec.key_type); });
}

}  // namespace

void record_cache_append(Batch& batch, const Tensor& cache, const Tensor& rows,
                         const Tensor& positions) {
  constexpr std::string_view op = "cache append";
  require(!cache.empty() && cache.shape().rank() == 3,
          "{}: cache must be f32, bf16, f16 or q8_0 [S, G, E], got {}", op,
          cache.empty() ? "nothing" : cache.text());
  require(!rows.empty() && rows.shape().rank() == 3 && rows.elements() > 0,
          "{}: rows must be f32, bf16 or f16 [T, {}, {}], got {}", op, cache.shape()[1],
          cache.shape()[2], rows.empty() ? "nothing" : rows.text());
  const std::int64_t T = rows.shape()[0], G = cache.shape()[1], E = cache.shape()[2];
  if (cache.type() != DType::q8_0) require_any_activation(op, "cache", cache, cache.shape());
  if (cache.type() == DType::q8_0) require_q8_heads(op, E);
  require_any_activation(op, "rows", rows, {T, G, E});
  require_tensor(op, "positions", positions, {T}, DType::i32);
  AttentionSpec spec{.context = batch.context(),
                     .T = T,
                     .Tk = cache.shape()[0],
                     .H = G,
                     .G = G,
                     .E = E,
                     .key_type = cache.type()};
  spec.cpu = takes_cpu_append(batch.context(), spec, rows.type());
  const Cost cost{0,
                  static_cast<double>(rows.bytes() +
                                      bytes_of(cache.type(), static_cast<std::size_t>(T * G * E)))};
  if (spec.cpu) {
    const std::int64_t group_rows = divide_up(T, spec.wanted_groups());
    batch.launch({spec.kernel("attention_decode_cpu.cl", "cache_append_cpu"),
                  single_item_groups(static_cast<std::size_t>(divide_up(T, group_rows))), cost,
                  "cache append"},
                 cache, rows, positions, narrow(T), narrow(spec.Tk), narrow(G * E),
                 narrow(group_rows));
  } else if (cache.type() == DType::q8_0) {
    const std::int64_t row_blocks = G * E / kElementsOfQ8Block;
    Defines defines;
    defines.set("X_TYPE", name_of(rows.type()));
    batch.launch({spec.context.kernel("cache_append_q8_0.cl", "cache_append_q8_0", defines),
                  spec.groups(divide_up(row_blocks, spec.work_group()), T), cost, "cache append"},
                 cache, rows, positions, narrow(spec.Tk), narrow(row_blocks));
  } else {
    batch.launch({spec.context.kernel("attention.cl", "cache_append",
                                      spec.defines(rows.type(), cache.type())),
                  spec.groups(divide_up(G * E, spec.work_group()), T), cost, "cache append"},
                 cache, rows, positions, narrow(spec.Tk), narrow(G * E));
  }
}

}  // namespace clora
