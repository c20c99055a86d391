#include "ops/attention.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "ops/reduction_grid.hpp"
#include "ops/variant_choice.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

constexpr std::int64_t kQueries = 32;  // query rows of a block: QUERIES of attention_tile_cpu.clh
constexpr std::int64_t kKeys = 64;     // keys of a block of scores, CPU devices
constexpr std::int64_t kDecodeRows = 16;  // up to here, rows one by one beat blocks of rows
constexpr std::int64_t kGroupsPerUnit = 4;
constexpr std::int64_t kMaxChunks = 8;  // bounds the memory of the backward's parts
constexpr std::int64_t kMinChunk = 64;
constexpr std::size_t kWorkGroup = 64;
constexpr std::int32_t kDocument = 21;  // where the second document of a self-test begins

std::int64_t power_of_two_from(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
}

// The sizes of one call, checked, and what follows from them and the device: -D options, grids,
// local memory.
struct AttentionSpec {
  Context& context;
  std::int64_t T, Tk, H, G, E;
  Variant variant = Variant::portable;

  std::size_t units() const { return std::max(1U, context.device().compute_units); }
  bool cpu() const { return variant == Variant::cpu; }
  bool decodes() const { return T <= kDecodeRows; }  // where cpu()
  std::int64_t wanted_groups() const { return kGroupsPerUnit * static_cast<std::int64_t>(units()); }

  // Forward of few rows: in how many shares a row's keys are dealt out.
  std::int64_t splits() const { return attention_decode_splits(context.device(), T, G); }
  // Backward: keys of one work-group. A power of two, so that documents that fill a power of two
  // begin where chunks begin.
  std::int64_t chunk() const {
    const std::int64_t chunks =
        std::clamp<std::int64_t>(divide_up(wanted_groups(), G), 1, kMaxChunks);
    return power_of_two_from(std::max(kMinChunk, divide_up(T, chunks)));
  }

  std::int64_t padded_width() const { return divide_up(E, 16) * 16; }
  LocalMemory local(std::int64_t floats) const {
    const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
    if (bytes > context.device().local_memory_bytes) {
      fail(ErrorCode::unsupported,
           "attention: heads of {} need {} bytes of local memory, '{}' has {}; take the portable "
           "variant or another device",
           E, bytes, context.device().name, context.device().local_memory_bytes);
    }
    return {bytes};
  }
  LocalMemory forward_scratch() const { return local((2 * E + kKeys + 2) * kQueries); }
  LocalMemory backward_scratch() const { return local((3 * E + 2 * kKeys + 3) * kQueries); }
  LocalMemory decode_scratch() const { return local(H / G * (2 * padded_width() + 2) + kKeys); }

  std::int64_t work_group() const {
    return static_cast<std::int64_t>(reduction_group(context.device(), kWorkGroup));
  }
  Defines defines() const {
    return cpu() ? Defines().set("KEYS", kKeys) : Defines().set("GROUP", work_group());
  }
  Grid groups(std::int64_t x, std::int64_t y) const {
    const auto items = static_cast<std::size_t>(work_group());
    return {{static_cast<std::size_t>(x) * items, static_cast<std::size_t>(y), 1}, {items, 1, 1}};
  }
  Kernel kernel(std::string_view file, std::string_view function) const {
    return context.kernel(file, function, defines());
  }

  // Pairs that are not masked are known on the device only: the cost of one long document, or of
  // a full cache.
  Cost cost() const {
    const auto rows = static_cast<double>(T);
    const double pairs = T == Tk ? rows * (rows + 1) / 2 : rows * static_cast<double>(Tk);
    return attention_cost({T, H, E}, pairs);
  }
};

std::int32_t narrow(std::int64_t n) { return static_cast<std::int32_t>(n); }

AttentionSpec checked_spec(std::string_view op, Context& context, const AttentionInputs& inputs) {
  const Tensor& q = inputs.q;
  const Tensor& k = inputs.k;
  require(!q.empty() && q.shape().rank() == 3 && q.elements() > 0,
          "{}: q must be f32 [T, H, E], got {}", op, q.empty() ? "nothing" : q.text());
  const std::int64_t E = q.shape()[2];
  require(!k.empty() && k.shape().rank() == 3 && k.elements() > 0,
          "{}: k must be f32 [Tk, G, {}] to match q {}, got {}", op, E, q.text(),
          k.empty() ? "nothing" : k.text());
  const AttentionSpec spec{context, q.shape()[0], k.shape()[0], q.shape()[1], k.shape()[1], E};
  require(spec.H % spec.G == 0, "{}: the {} query heads must be a multiple of the {} key heads", op,
          spec.H, spec.G);
  require_tensor(op, "q", q, {spec.T, spec.H, spec.E});
  require_tensor(op, "k", k, {spec.Tk, spec.G, spec.E});
  require_tensor(op, "v", inputs.v, {spec.Tk, spec.G, spec.E});
  require_tensor(op, "first", inputs.first, {spec.T}, DType::i32);
  require_tensor(op, "last", inputs.last, {spec.T}, DType::i32);
  return spec;
}

void record_decode(Batch& batch, const AttentionSpec& spec, const Tensor& y,
                   const Tensor& log_sum_exp, const AttentionInputs& in) {
  const auto [context, T, Tk, H, G, E, variant] = spec;
  const std::int64_t splits = spec.splits();
  const Tensor parts = batch.temporary({T, H, splits, E + 2}, DType::f32, "attention parts");
  batch.launch({spec.kernel("attention_decode_cpu.cl", "attention_decode_cpu"),
                single_item_groups(static_cast<std::size_t>(T * G * splits)), spec.cost(),
                "attention/decode"},
               parts, in.q, in.k, in.v, in.first, in.last, narrow(H), narrow(G), narrow(E),
               in.scale, narrow(splits), spec.decode_scratch());
  const bool keeps = !log_sum_exp.empty();
  batch.launch({spec.kernel("attention_decode_cpu.cl", "attention_join_cpu"),
                single_item_groups(static_cast<std::size_t>(T)),
                {},
                "attention/join"},
               y, keeps ? log_sum_exp : y, parts, narrow(H), narrow(E), narrow(splits),
               std::int32_t{keeps});
}

void record_backward_cpu(Batch& batch, const AttentionSpec& spec, const AttentionGradients& out,
                         const Tensor& dy, const Tensor& y, const Tensor& log_sum_exp,
                         const AttentionInputs& in, Cost cost) {
  const auto [context, T, Tk, H, G, E, variant] = spec;
  const std::int64_t chunk = spec.chunk();
  const std::int64_t chunks = divide_up(T, chunk);
  const Tensor parts =
      chunks == 1 ? out.dq : batch.temporary({chunks - 1, T, H, E}, DType::f32, "dq parts");
  batch.launch(
      {spec.kernel("attention_backward_cpu.cl", "attention_backward_cpu"),
       single_item_groups(static_cast<std::size_t>(G * chunks)), cost, "attention/backward"},
      out.dq, parts, out.dk, out.dv, dy, y, log_sum_exp, in.q, in.k, in.v, in.first, narrow(T),
      narrow(H), narrow(G), narrow(E), in.scale, narrow(chunk), spec.backward_scratch());
  if (chunks == 1) return;
  const std::int64_t rows = divide_up(T, spec.wanted_groups());
  batch.launch({spec.kernel("attention_backward_cpu.cl", "attention_add_parts_cpu"),
                single_item_groups(static_cast<std::size_t>(divide_up(T, rows))),
                {},
                "attention/add parts"},
               out.dq, parts, in.first, narrow(T), narrow(H * E), narrow(chunk), narrow(rows));
}

void record_backward_portable(Batch& batch, const AttentionSpec& spec,
                              const AttentionGradients& out, const Tensor& dy, const Tensor& y,
                              const Tensor& log_sum_exp, const AttentionInputs& in, Cost cost) {
  const auto [context, T, Tk, H, G, E, variant] = spec;
  const auto kernel = [&](std::string_view name) {
    return spec.kernel("attention_backward.cl", name);
  };
  const Tensor dot = batch.temporary({T, H}, DType::f32, "dy . y");
  const LocalMemory row = spec.local(E);
  (void)spec.local(4 * E + 2 * spec.work_group());
  batch.launch({kernel("attention_dots"),
                spec.groups(divide_up(T * H, spec.work_group()), 1),
                {},
                "attention/dots"},
               dot, dy, y, narrow(T * H), narrow(E));
  batch.launch({kernel("attention_backward_keys"), spec.groups(G, T), cost, "attention/backward"},
               out.dk, out.dv, dy, log_sum_exp, dot, in.q, in.k, in.v, in.first, narrow(T),
               narrow(H), narrow(G), narrow(E), in.scale, row, row, row, row);
  batch.launch(
      {kernel("attention_backward_queries"), spec.groups(H, T), {}, "attention/backward q"}, out.dq,
      dy, log_sum_exp, dot, in.q, in.k, in.v, in.first, narrow(H), narrow(G), narrow(E), in.scale,
      row, row, row);
}

// `rows` queries, the last ones of a row of `keys` keys; the first keys are another document.
AttentionInputs test_inputs(SelfTest& test, std::int64_t rows, std::int64_t keys) {
  constexpr std::int64_t kHeads = 4, kKeyHeads = 2, kWidth = 20;
  std::vector<std::int32_t> first(static_cast<std::size_t>(rows), 0);
  std::vector<std::int32_t> last(first.size());
  for (std::size_t t = 0; t < last.size(); ++t) {
    last[t] = static_cast<std::int32_t>(keys - rows) + static_cast<std::int32_t>(t);
    if (last[t] >= kDocument) first[t] = kDocument;
  }
  return {.q = test.input({rows, kHeads, kWidth}),
          .k = test.input({keys, kKeyHeads, kWidth}),
          .v = test.input({keys, kKeyHeads, kWidth}),
          .first = test.input({rows}, first),
          .last = test.input({rows}, last),
          .scale = 0.25F};
}

void test_attention(SelfTest& test, std::int64_t rows, std::int64_t keys) {
  const AttentionInputs in = test_inputs(test, rows, keys);
  record_attention(test.batch(), test.output(in.q.shape()), test.output({rows, in.q.shape()[1]}),
                   in);
}

Variant choose_forward(Context& context, bool decodes) {
  if (decodes) {
    return variant_for(context, "attention_decode_cpu.cl", "attention_decode_cpu",
                       [](SelfTest& test) { test_attention(test, 3, 90); });
  }
  return variant_for(context, "attention_cpu.cl", "attention_forward_cpu", [](SelfTest& test) {
    test_attention(test, 2 * kQueries + 5, 2 * kQueries + 5);
  });
}

// Two chunks of keys.
void test_backward(SelfTest& test) {
  constexpr std::int64_t kRows = kMinChunk + 9;
  const AttentionInputs in = test_inputs(test, kRows, kRows);
  const Tensor y = test.output(in.q.shape());
  const Tensor log_sum_exp = test.output({kRows, in.q.shape()[1]});
  record_attention(test.batch(), y, log_sum_exp, in);
  record_attention_backward(
      test.batch(),
      {test.output(in.q.shape()), test.output(in.k.shape()), test.output(in.k.shape())},
      test.input(in.q.shape()), y, log_sum_exp, in);
}

void test_append(SelfTest& test) {
  const std::vector<std::int32_t> positions{3, -1, 0, 5, 6, 2};
  record_cache_append(test.batch(), test.changed(test.input({6, 2, 20})), test.input({6, 2, 20}),
                      test.input({6}, positions));
}

}  // namespace

void record_attention(Batch& batch, const Tensor& y, const Tensor& log_sum_exp,
                      const AttentionInputs& in) {
  AttentionSpec spec = checked_spec("attention", batch.context(), in);
  spec.variant = choose_forward(batch.context(), spec.decodes());
  const auto [context, T, Tk, H, G, E, variant] = spec;
  require_tensor("attention", "y", y, in.q.shape());
  const bool keeps = !log_sum_exp.empty();
  if (keeps) require_tensor("attention", "log_sum_exp", log_sum_exp, {T, H});
  if (spec.cpu() && spec.decodes()) {
    record_decode(batch, spec, y, log_sum_exp, in);
    return;
  }
  const Tensor& logs = keeps ? log_sum_exp : y;  // not written where it is not kept
  if (spec.cpu()) {
    batch.launch({spec.kernel("attention_cpu.cl", "attention_forward_cpu"),
                  single_item_groups(static_cast<std::size_t>(H * divide_up(T, kQueries))),
                  spec.cost(), "attention/forward"},
                 y, logs, in.q, in.k, in.v, in.first, in.last, narrow(T), narrow(Tk), narrow(H),
                 narrow(G), narrow(E), in.scale, std::int32_t{keeps}, spec.forward_scratch());
  } else {
    (void)spec.local(2 * E + spec.work_group());
    const LocalMemory row = spec.local(E);
    batch.launch({spec.kernel("attention.cl", "attention_forward"), spec.groups(H, T), spec.cost(),
                  "attention/forward"},
                 y, logs, in.q, in.k, in.v, in.first, in.last, narrow(H), narrow(G), narrow(E),
                 in.scale, std::int32_t{keeps}, row, row);
  }
}

void record_attention_backward(Batch& batch, const AttentionGradients& out, const Tensor& dy,
                               const Tensor& y, const Tensor& log_sum_exp,
                               const AttentionInputs& in) {
  constexpr std::string_view op = "attention backward";
  AttentionSpec spec = checked_spec(op, batch.context(), in);
  require(spec.T == spec.Tk, "{}: k must have the {} rows of q (packed rows), got {}", op, spec.T,
          in.k.text());
  require_tensor(op, "dq", out.dq, in.q.shape());
  require_tensor(op, "dk", out.dk, in.k.shape());
  require_tensor(op, "dv", out.dv, in.k.shape());
  require_tensor(op, "dy", dy, in.q.shape());
  require_tensor(op, "y", y, in.q.shape());
  require_tensor(op, "log_sum_exp", log_sum_exp, {spec.T, spec.H});
  spec.variant = variant_for(batch.context(), "attention_backward_cpu.cl", "attention_backward_cpu",
                             test_backward);
  Cost cost = spec.cost();
  cost.flops *= 2.5;  // five products for two
  cost.bytes *= 2;    // q, dy, y in, dq out
  if (spec.cpu()) {
    record_backward_cpu(batch, spec, out, dy, y, log_sum_exp, in, cost);
  } else {
    record_backward_portable(batch, spec, out, dy, y, log_sum_exp, in, cost);
  }
}

void record_cache_append(Batch& batch, const Tensor& cache, const Tensor& rows,
                         const Tensor& positions) {
  constexpr std::string_view op = "cache append";
  require(!cache.empty() && cache.shape().rank() == 3, "{}: cache must be f32 [S, G, E], got {}",
          op, cache.empty() ? "nothing" : cache.text());
  require(!rows.empty() && rows.shape().rank() == 3 && rows.elements() > 0,
          "{}: rows must be f32 [T, {}, {}], got {}", op, cache.shape()[1], cache.shape()[2],
          rows.empty() ? "nothing" : rows.text());
  const std::int64_t T = rows.shape()[0], G = cache.shape()[1], E = cache.shape()[2];
  require_tensor(op, "cache", cache, cache.shape());
  require_tensor(op, "rows", rows, {T, G, E});
  require_tensor(op, "positions", positions, {T}, DType::i32);
  const Variant variant =
      variant_for(batch.context(), "attention_decode_cpu.cl", "cache_append_cpu", test_append);
  const AttentionSpec spec{batch.context(), T, cache.shape()[0], G, G, E, variant};
  const Cost cost{0, 2.0 * static_cast<double>(rows.bytes())};
  if (spec.cpu()) {
    const std::int64_t group_rows = divide_up(T, spec.wanted_groups());
    batch.launch({spec.kernel("attention_decode_cpu.cl", "cache_append_cpu"),
                  single_item_groups(static_cast<std::size_t>(divide_up(T, group_rows))), cost,
                  "cache append"},
                 cache, rows, positions, narrow(T), narrow(spec.Tk), narrow(G * E),
                 narrow(group_rows));
  } else {
    batch.launch({spec.kernel("attention.cl", "cache_append"),
                  spec.groups(divide_up(G * E, spec.work_group()), T), cost, "cache append"},
                 cache, rows, positions, narrow(spec.Tk), narrow(G * E));
  }
}

std::int64_t attention_decode_splits(const Device& device, std::int64_t rows, std::int64_t G) {
  const std::int64_t wanted = kGroupsPerUnit * std::max<std::int64_t>(1, device.compute_units);
  return power_of_two_from(divide_up(wanted, rows * G));
}

Cost attention_cost(const Shape& q, double pairs) {
  require(q.rank() == 3, "attention cost: q must be [T, H, E], got {}", q.text());
  const auto heads = static_cast<double>(q[1]), width = static_cast<double>(q[2]);
  return {4 * pairs * heads * width, 2.0 * sizeof(float) * static_cast<double>(q.elements())};
}

}  // namespace clora
