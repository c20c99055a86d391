#include "clora/ops/decode/decode_layers.hpp"

#include <algorithm>
#include <array>

#include "clora/ops/attention/attention.hpp"
#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/quant/quant.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"
#include "clora/ops/rowwise/rope.hpp"
#include "clora/ops/rowwise/swiglu.hpp"
#include "ops/decode/decode_layers_gpu.hpp"
#include "ops/decode/decode_layers_portable.hpp"
#include "ops/decode/decode_layers_table.hpp"
#include "ops/dispatch/co_resident_groups.hpp"
#include "ops/dispatch/integer_products.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::string_view kFile = "decode_layers_cpu.cl";
constexpr std::int64_t kKeys = 64;        // of a block of scores, as AttentionSpec::kKeys
constexpr std::uint32_t kMaxGroups = 64;  // all of them update one counter
constexpr double kTolerance = 1e-2;       // integer instead of float arithmetic through two blocks
constexpr double kGpuTolerance = 1e-3;    // the order of sums through two blocks of a model

using Sizes = DecodeSizes;

void require_matrix(std::string_view name, const Tensor& w, std::int64_t rows,
                    std::int64_t columns) {
  require_weight("decode_layers", name, w);
  require(w.shape() == Shape({rows, columns}), "decode_layers: {} must be [{}, {}], got {}", name,
          rows, columns, w.text());
}

void require_layer(const DecodeLayer& l, const Sizes& s) {
  constexpr std::string_view op = "decode_layers";
  require_tensor(op, "input_norm", l.input_norm, {s.D});
  require_tensor(op, "output_norm", l.output_norm, {s.D});
  require_matrix("q", l.q, s.H * s.E, s.D);
  require_matrix("k", l.k, s.G * s.E, s.D);
  require_matrix("v", l.v, s.G * s.E, s.D);
  require_matrix("o", l.o, s.D, s.H * s.E);
  require_matrix("gate", l.gate, s.F, s.D);
  require_matrix("up", l.up, s.F, s.D);
  require_matrix("down", l.down, s.D, s.F);
  if (!l.q_bias.empty()) require_tensor(op, "q_bias", l.q_bias, {s.H * s.E});
  if (!l.k_bias.empty()) require_tensor(op, "k_bias", l.k_bias, {s.G * s.E});
  if (!l.v_bias.empty()) require_tensor(op, "v_bias", l.v_bias, {s.G * s.E});
  for (const LoraWeights& lora : l.loras) {
    require(lora.dropout.probability == 0, "{}: adapters must not use dropout", op);
  }
  require_tensor(op, "key_cache", l.key_cache, {s.S, s.G, s.E});
  require_tensor(op, "value_cache", l.value_cache, {s.S, s.G, s.E});
}

Sizes checked(const Tensor& x, const DecodeLayers& decode) {
  constexpr std::string_view op = "decode_layers";
  const Sizes s = decode_sizes(decode);
  require_tensor(op, "x", x, {1, s.D});
  for (const DecodeLayer& layer : decode.layers) require_layer(layer, s);
  require(!decode.rope_table.empty() && decode.rope_table.shape().rank() == 3,
          "{}: rope_table must be f32 [P, {}, 2]", op, s.E / 2);
  require_tensor(op, "rope_table", decode.rope_table, {decode.rope_table.shape()[0], s.E / 2, 2});
  require_tensor(op, "position", decode.position, {1}, DType::i32);
  require_tensor(op, "first", decode.first, {1}, DType::i32);
  require_tensor(op, "last", decode.last, {1}, DType::i32);
  return s;
}

// Bytes of local memory: a row of integers, or the scratch of attention.
std::size_t scratch_bytes(const Sizes& s) {
  const std::int64_t widest = std::max({s.D, s.F, s.H * s.E});
  const std::int64_t padded = round_up(s.E, 16);
  const std::int64_t floats = s.H / s.G * (2 * padded + 2) + kKeys;
  return static_cast<std::size_t>(std::max(widest * 9 / 4, 4 * floats));
}

bool packed_layers_fit(const Context& context, const DecodeLayers& decode) {
  const Sizes s = decode_sizes(decode);
  const Tensor& like = decode.layers.front().q;
  for (const DecodeLayer& layer : decode.layers) {
    if (has_bias(layer) || has_adapter(layer)) return false;
    for (const Tensor* w : matrices_of(layer)) {
      if (w->layout() != Layout::packed || w->type() != like.type()) return false;
    }
  }
  return s.E % 16 == 0 && s.H % s.G == 0 && scratch_bytes(s) <= context.device().local_memory_bytes;
}

bool fits_cpu(const Context& context, const DecodeLayers& decode) {
  return context.variant() != Variant::amx && integer_products(context) != IntegerDots::none &&
         packed_layers_fit(context, decode);
}

Defines defines_of(const Context& context, const DecodeLayers& decode) {
  Defines defines;
  set_weight_type(defines, decode.layers.front().q);
  define_integer_dots(defines, integer_products(context));
  return defines.set("KEYS", kKeys);
}

// Two blocks over a partly filled cache.
void test_decode_cpu(SelfTest& test, DType type) {
  constexpr std::int64_t D = 64, F = 2 * D, H = 4, G = 2, E = D / H, S = 40;
  const auto matrix = [&](std::int64_t n, std::int64_t k) {
    return test.weights({n, k}, type, Layout::packed);
  };
  DecodeLayers decode{.layers = {},
                      .rope_table = test.input({S, E / 2, 2}),
                      .position = test.input({1}, std::vector<std::int32_t>{34}),
                      .first = test.input({1}, std::vector<std::int32_t>{1}),
                      .last = test.input({1}, std::vector<std::int32_t>{34}),
                      .heads = H,
                      .epsilon = 1e-5F};
  for (int l = 0; l < 2; ++l) {
    decode.layers.push_back({.input_norm = test.input({D}, 1e-2F),
                             .q = matrix(H * E, D),
                             .k = matrix(G * E, D),
                             .v = matrix(G * E, D),
                             .o = matrix(D, H * E),
                             .output_norm = test.input({D}, 1e-2F),
                             .gate = matrix(F, D),
                             .up = matrix(F, D),
                             .down = matrix(D, F),
                             .key_cache = test.changed(test.input({S, G, E})),
                             .value_cache = test.changed(test.input({S, G, E}))});
  }
  const Tensor x = test.changed(test.input({1, D}));
  const Tensor grid_barrier = test.input({3}, std::vector<std::int32_t>(3));
  if (decodes_in_one_launch(test.batch().context(), decode)) {
    record_decode_layers(test.batch(), x, decode, grid_barrier);
  } else {
    record_decode_layers_unfused(test.batch(), x, decode);
  }
}

// The model's first layer and the first one with an adapter (or the second layer), with small
// caches of the test.
std::vector<DecodeLayer> layers_to_test(SelfTest& test, const DecodeLayers& decode,
                                        std::int64_t S) {
  std::vector<DecodeLayer> layers{decode.layers.front()};
  const auto adapted = std::ranges::find_if(decode.layers, has_adapter);
  if (adapted != decode.layers.end() && adapted != decode.layers.begin()) {
    layers.push_back(*adapted);
  } else if (decode.layers.size() > 1) {
    layers.push_back(decode.layers[1]);
  }
  const Sizes s = decode_sizes(decode);
  for (DecodeLayer& layer : layers) {
    layer.key_cache = test.changed(test.input({S, s.G, s.E}));
    layer.value_cache = test.changed(test.input({S, s.G, s.E}));
  }
  return layers;
}

// Runs the program of the model itself, which is compiled for its sizes, on two of its layers: test
// weights of these sizes would take as much memory.
void test_decode_gpu(SelfTest& test, const DecodeLayers& decode) {
  constexpr std::int64_t kRows = 40;
  const std::int64_t S = std::min(kRows, decode.rope_table.shape()[0]);
  const std::vector<std::int32_t> position{static_cast<std::int32_t>(S - 1)};
  DecodeLayers probe = decode;
  probe.layers = layers_to_test(test, decode, S);
  probe.position = test.input({1}, position);
  probe.first = test.input({1}, std::vector<std::int32_t>{S > 2 ? 1 : 0});
  probe.last = test.input({1}, position);
  const Tensor x = test.changed(test.input({1, decode_sizes(decode).D}));
  const Tensor grid_barrier = test.input({3}, std::vector<std::int32_t>(3));
  if (makes_reference(test.batch().context())) {
    record_decode_layers_unfused(test.batch(), x, probe);
  } else {
    record_decode_layers_gpu(test.batch(), x, probe, grid_barrier, decode);
  }
}

bool cpu_passed(Context& context, const DecodeLayers& decode) {
  const DType type = decode.layers.front().q.type();
  return passed_self_test(context,
                          {kFile, fmt::format("decode_layers {}", name_of(type)), kTolerance},
                          [type](SelfTest& test) { test_decode_cpu(test, type); });
}

bool gpu_passed(Context& context, const DecodeLayers& decode) {
  const std::string options = decode_layers_gpu_options(context, decode);
  return passed_self_test(context, {kDecodeLayersGpu, "decode_layers_gpu", kGpuTolerance, options},
                          [&](SelfTest& test) { test_decode_gpu(test, decode); });
}

void record_linear(Batch& batch, const Tensor& y, const Tensor& x, const LinearWeights& weights,
                   const LoraWeights& lora, const Tensor& residual = {}) {
  const Tensor s =
      lora.empty() ? Tensor() : batch.temporary({1, lora.a.shape()[0]}, DType::f32, "s");
  record_lora_linear(batch, y, s, x, weights, lora, residual);
}

void attend(Batch& batch, const Tensor& x, const DecodeLayer& l, const DecodeLayers& decode,
            const Sizes& s) {
  const auto linear = [&](std::size_t projection, const Tensor& h, const Tensor& w,
                          const Tensor& bias, std::string_view name) {
    const Tensor y = batch.temporary({1, w.shape()[0]}, DType::f32, name);
    record_linear(batch, y, h, {w, bias}, l.loras[projection]);
    return y;
  };
  const Tensor h = batch.temporary({1, s.D}, DType::f32, "h1");
  record_rms_norm(batch, h, x, l.input_norm, decode.epsilon);
  const Tensor q = linear(0, h, l.q, l.q_bias, "q").reshape({1, s.H, s.E});
  const Tensor k = linear(1, h, l.k, l.k_bias, "k").reshape({1, s.G, s.E});
  const Tensor v = linear(2, h, l.v, l.v_bias, "v").reshape({1, s.G, s.E});
  for (const Tensor& rotated : {q, k}) {
    record_rope(batch, rotated, rotated, decode.position, decode.rope_table, RopeLayout::half_split,
                RopeDirection::forward);
  }
  record_cache_append(batch, l.key_cache, k, decode.position);
  record_cache_append(batch, l.value_cache, v, decode.position);
  const Tensor y = batch.temporary({1, s.H, s.E}, DType::f32, "attention");
  record_attention(batch, y, {},
                   {.q = q,
                    .k = l.key_cache,
                    .v = l.value_cache,
                    .first = decode.first,
                    .last = decode.last,
                    .scale = decode_attention_scale(s)});
  record_linear(batch, x, y.reshape({1, s.H * s.E}), {l.o, {}}, l.loras[3], x);
}

void feed_forward(Batch& batch, const Tensor& x, const DecodeLayer& l, const DecodeLayers& decode,
                  const Sizes& s) {
  const Tensor h = batch.temporary({1, s.D}, DType::f32, "h2");
  const Tensor gate = batch.temporary({1, s.F}, DType::f32, "gate");
  const Tensor up = batch.temporary({1, s.F}, DType::f32, "up");
  record_rms_norm(batch, h, x, l.output_norm, decode.epsilon);
  record_linear(batch, gate, h, {l.gate, {}}, l.loras[4]);
  record_linear(batch, up, h, {l.up, {}}, l.loras[5]);
  record_swiglu(batch, gate, gate, up);
  record_linear(batch, x, gate, {l.down, {}}, l.loras[6], x);
}

}  // namespace

void record_decode_layers_unfused(Batch& batch, const Tensor& x, const DecodeLayers& decode) {
  const Sizes s = checked(x, decode);
  for (const DecodeLayer& layer : decode.layers) {
    attend(batch, x, layer, decode, s);
    feed_forward(batch, x, layer, decode, s);
  }
}

bool decodes_in_one_launch(Context& context, const DecodeLayers& decode) {
  const bool on_cpu = is_for_cpus(context.variant());
  const bool fits =
      on_cpu ? fits_cpu(context, decode)
             : context.device().kind == DeviceKind::gpu && decode_layers_gpu_fit(context, decode);
  // On pocl, co_resident_groups() reserves the threads: only for layers that fit.
  return fits && co_resident_groups(context) > 0 &&
         (on_cpu ? cpu_passed(context, decode) : gpu_passed(context, decode));
}

void record_decode_layers(Batch& batch, const Tensor& x, const DecodeLayers& decode,
                          const Tensor& grid_barrier) {
  const Sizes s = checked(x, decode);
  require_tensor("decode_layers", "grid_barrier", grid_barrier, {3}, DType::i32);
  Context& context = batch.context();
  if (!is_for_cpus(context.variant())) {
    return record_decode_layers_gpu(batch, x, decode, grid_barrier, decode);
  }
  require(packed_layers_fit(context, decode),
          "decode_layers: the layers' weights must be packed and of one type");
  const std::uint32_t groups = std::clamp(context.device().compute_units, 1U, kMaxGroups);
  const std::int64_t splits = attention_decode_splits(context.device(), 1, s.G);
  const auto temporary = [&](Shape shape, std::string_view name) {
    return batch.temporary(shape, DType::f32, name);
  };
  const Defines defines = defines_of(context, decode);
  const DecodeDims dims{.D = u32(s.D),
                        .F = u32(s.F),
                        .H = u32(s.H),
                        .G = u32(s.G),
                        .E = u32(s.E),
                        .splits = u32(splits)};
  batch.fill_zero(grid_barrier);
  batch.launch({context.kernel(kFile, "decode_layers", defines), single_item_groups(groups),
                decode_layers_cost(decode), "decode_layers/forward", tensors_of(decode)},
               x, temporary({s.H, s.E}, "q"), temporary({s.H, splits, s.E + 2}, "attention parts"),
               temporary({groups, s.H, s.E}, "attention"), temporary({s.F}, "swiglu"),
               decode_table(context, decode), decode.rope_table, decode.position, decode.first,
               decode.last, grid_barrier, by_value(decode_problem(decode)), by_value(dims),
               LocalMemory{scratch_bytes(s)});
}

bool decodes_in_few_launches(const Context& context, const DecodeLayers& decode) {
  return context.variant() == Variant::portable &&
         decode_layers_portable_fit(context.device(), decode);
}

void record_decode_layers_in_few_launches(Batch& batch, const Tensor& x,
                                          const DecodeLayers& decode) {
  (void)checked(x, decode);
  record_decode_layers_portable(batch, x, decode);
}

// The number of cache rows is known on the device only: their bytes and flops are not counted.
Cost decode_layers_cost(const DecodeLayers& decode) {
  Cost sum;
  for (const DecodeLayer& layer : decode.layers) {
    for (const Tensor* w : matrices_of(layer)) {
      const Cost cost = gemm_cost(1, *w);
      sum.flops += cost.flops;
      sum.bytes += cost.bytes;
    }
  }
  return sum;
}

}  // namespace clora
