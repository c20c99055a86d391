#include "ops/decode/decode_layers_cpu.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "clora/ops/attention/attention.hpp"
#include "clora/ops/quant/quant.hpp"
#include "ops/attention/attention_spec.hpp"
#include "ops/decode/decode_layers_table.hpp"
#include "ops/decode/decode_pages_self_test.hpp"
#include "ops/dispatch/co_resident_groups.hpp"
#include "ops/dispatch/integer_products.hpp"
#include "ops/dispatch/soft_cap_define.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kMaxGroups = 64;  // all of them update one counter
constexpr double kTolerance = 1e-2;       // integer instead of float arithmetic through two blocks
// Of the self-test's scores, most of which exceed it: a cap of any model is another constant in the
// same program.
constexpr float kTestedCap = 0.25F;

// Bytes of local memory: a row of integers, or the scratch of attention.
std::size_t scratch_bytes(const DecodeSizes& s) {
  const std::int64_t widest = std::max({s.D, s.F, s.H * s.E});
  const std::int64_t floats = attention_decode_scratch(s.H / s.G, s.E, s.cache, true);
  return static_cast<std::size_t>(std::max(widest * 9 / 4, 4 * floats));
}

Defines defines_of(const Context& context, const DecodeLayers& decode) {
  Defines defines;
  set_weight_type(defines, decode.layers.front().q);
  define_integer_dots(defines, integer_products(context));
  define_soft_cap(defines, decode.soft_cap);
  if (decode.function == GateFunction::gelu) defines.set("GELU");
  return defines.set("KEYS", AttentionSpec::kKeys)
      .set("KEY_TYPE", name_of(decode.layers.front().key_cache.type()))
      .set("PAGE", decode.pages.positions);
}

// What distinguishes the programs.
struct TestedProgram {
  DType type, cache_type;  // of the weights, of the caches
  GateFunction function;
  bool is_capped;  // scores
};

// Two blocks over a partly filled cache; with everything that is optional, or without.
void test_layers(SelfTest& test, TestedProgram program, bool full) {
  const auto [type, cache_type, function, is_capped] = program;
  constexpr std::int64_t H = 4, G = 2;
  const std::int64_t E = cache_type == DType::q8_0 ? 32 : 16, D = H * E, F = 2 * D;
  // Stored sums are found by the inputs, which must differ for results that do.
  const std::int64_t positions = (function == GateFunction::silu ? 40 : 41) + (is_capped ? 2 : 0);
  constexpr std::int64_t kPages = 3, kPagePositions = 16, S = kPages * kPagePositions;
  const auto matrix = [&](std::int64_t n, std::int64_t k) {
    return test.weights({n, k}, type, Layout::packed);
  };
  const auto optional = [&](std::int64_t n) { return full ? test.input({n}, 0.5F) : Tensor(); };
  DecodeLayers decode{.layers = {},
                      .position = test.input({1}, std::vector<std::int32_t>{34}),
                      .last = test.input({1}, std::vector<std::int32_t>{34}),
                      .slot = {},
                      .pages = {},
                      .heads = H,
                      .epsilon = 1e-5F,
                      .scale = is_capped ? 1.0F : 0.25F,
                      .soft_cap = is_capped ? kTestedCap : 0.0F,
                      .multiplier = full ? 0.5F : 1.0F,
                      .function = function};
  place_in_pages(test, decode, {kPages, kPagePositions}, 34);
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
                             .key_cache = test.changed(test.input({S, G, E}, 1, cache_type)),
                             .value_cache = test.changed(test.input({S, G, E}, 1, cache_type)),
                             .first = test.input({1}, std::vector<std::int32_t>{1}),
                             .rope_table = test.input({positions, full ? E / 4 : E / 2, 2}),
                             .key_rope_table = full ? test.input({positions, E / 4, 2}) : Tensor(),
                             .q_bias = optional(H * E),
                             .k_bias = optional(G * E),
                             .v_bias = optional(G * E),
                             .q_norm = optional(E),
                             .k_norm = optional(E),
                             .attention_post_norm = optional(D),
                             .feed_forward_post_norm = optional(D)});
  }
  const Tensor x = test.changed(test.input({1, D}));
  const Tensor grid_barrier = test.input({3}, std::vector<std::int32_t>(3));
  if (decodes_in_one_launch(test.batch().context(), decode)) {
    record_decode_layers(test.batch(), x, decode, grid_barrier);
  } else {
    record_decode_layers_unfused(test.batch(), x, decode);
  }
}

void test_decode_cpu(SelfTest& test, TestedProgram program) {
  test_layers(test, program, false);
  test_layers(test, program, true);
}

}  // namespace

const char* decode_layers_cpu_refusal(const Context& context, const DecodeLayers& decode) {
  if (context.capabilities().amx) return "matrix tiles are faster";
  if (integer_products(context) == IntegerDots::none) {
    return "it needs dot products of bytes, and precision auto";
  }
  const Tensor& like = decode.layers.front().q;
  if (!is_quantised(like.type())) return "it reads packed quantised weights";
  for (const DecodeLayer& layer : decode.layers) {
    if (has_adapter(layer)) return "it is for layers without adapters";
    for (const Tensor* w : matrices_of(layer)) {
      if (w->layout() != Layout::packed || w->type() != like.type()) {
        return "it reads packed quantised weights of one type";
      }
    }
  }
  const DecodeSizes s = decode_sizes(decode);
  if (s.E % 16 != 0 || s.H % s.G != 0) return "it needs a head dim that is a multiple of 16";
  const bool fits = scratch_bytes(s) <= context.device().local_memory_bytes;
  return fits ? nullptr : "its scratch exceeds the local memory";
}

bool decode_layers_cpu_passed(Context& context, const DecodeLayers& decode) {
  if (co_resident_groups(context) == 0) return false;
  const DecodeLayer& first = decode.layers.front();
  const TestedProgram program{.type = first.q.type(),
                              .cache_type = first.key_cache.type(),
                              .function = decode.function,
                              .is_capped = decode.soft_cap != 0};
  const std::string cache =
      program.cache_type == DType::f32 ? "" : fmt::format(" {} cache", name_of(program.cache_type));
  const std::string name = fmt::format("decode_layers {}{}{}{}", name_of(program.type),
                                       program.function == GateFunction::gelu ? " gelu" : "",
                                       program.is_capped ? " capped" : "", cache);
  return passed_self_test(context, {kDecodeLayersCpu, name, kTolerance},
                          [program](SelfTest& test) { test_decode_cpu(test, program); });
}

void record_decode_layers_cpu(Batch& batch, const Tensor& x, const DecodeLayers& decode,
                              const Tensor& grid_barrier) {
  Context& context = batch.context();
  const DecodeSizes s = decode_sizes(decode);
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
                        .W = u32(s.W),
                        .splits = u32(splits),
                        .post_norms = s.post_norms ? 1U : 0U};
  const std::int64_t streams = s.post_norms ? std::int64_t{groups} : 1;
  batch.fill_zero(grid_barrier);
  batch.launch(
      {context.kernel(kDecodeLayersCpu, "decode_layers", defines), single_item_groups(groups),
       decode_layers_cost(decode), "decode_layers/forward", tensors_of(decode)},
      x, temporary({s.H + 2 * s.G, s.E}, "heads"),
      temporary({s.H, splits, s.E + 2}, "attention parts"),
      temporary({groups, s.H, s.E}, "attention"), temporary({s.F}, "swiglu"),
      temporary({streams, s.D}, "residual streams"), temporary({s.D}, "output"),
      decode_table(context, decode), decode.position, decode.last, decode.slot, decode.pages.tables,
      grid_barrier, by_value(decode_problem(decode)), by_value(dims),
      LocalMemory{scratch_bytes(s)});
}

}  // namespace clora
