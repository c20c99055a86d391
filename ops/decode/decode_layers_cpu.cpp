#include "ops/decode/decode_layers_cpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "clora/ops/attention/attention.hpp"
#include "clora/ops/quant/quant.hpp"
#include "ops/activations.hpp"
#include "ops/attention/attention_spec.hpp"
#include "ops/decode/decode_layers_table.hpp"
#include "ops/decode/decode_pages_self_test.hpp"
#include "ops/dispatch/co_resident_groups.hpp"
#include "ops/dispatch/integer_products.hpp"
#include "ops/dispatch/soft_cap_define.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/gemm/gemm_kernels.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kMaxGroups = 64;  // all of them update one counter
constexpr double kTolerance = 1e-2;       // integer instead of float arithmetic through two blocks
// Of the self-test's scores, most of which exceed it: a cap of any model is another constant in the
// same program.
constexpr float kTestedCap = 0.25F;

// Bytes of local memory: the rows in integers, or the scratch of attention.
std::size_t scratch_bytes(const DecodeSizes& s) {
  const std::int64_t widest = std::max({s.D, s.F, s.H * s.E});
  const std::int64_t floats = attention_decode_scratch(s.H / s.G, s.E, s.cache, true);
  return std::max(static_cast<std::size_t>(s.M) * int8_row_bytes(widest),
                  sizeof(float) * static_cast<std::size_t>(floats));
}

// The largest rank in any layer; 0 without adapters.
std::int64_t max_rank(const DecodeLayers& decode) {
  std::int64_t most = 0;
  for (const DecodeLayer& layer : decode.layers) {
    for (const LoraWeights& lora : layer.loras) most = std::max(most, rank_of(lora));
  }
  return most;
}

// One adapter is a stack of one.
Tensor row_groups(Context& context, const DecodeLayers& decode) {
  if (!decode_is_adapted(decode)) return decode.position;  // not read
  const Tensor given = row_groups_of(decode);
  if (!given.empty()) return given;
  const std::int64_t M = decode.position.elements();
  const std::vector<std::uint32_t> table = row_group_table(M, std::array{RowGroup{.end = M}});
  return context.upload<std::uint32_t>({M, kRowGroupWords}, DType::u32, table,
                                       MemoryTag::activations);
}

Defines defines_of(const Context& context, const DecodeLayers& decode) {
  Defines defines;
  set_weight_type(defines, decode.layers.front().q);
  define_integer_dots(defines, integer_products(context));
  define_soft_cap(defines, decode.soft_cap);
  if (decode.function == GateFunction::gelu) defines.set("GELU");
  if (decode_is_adapted(decode)) {
    defines.set("ADAPTER_TYPE", name_of(adapter_type_of(decode)))
        .set("MAX_ROWS", kMaxDecodeRowsCpu);
  }
  return defines.set("KEYS", AttentionSpec::kKeys)
      .set("KEY_TYPE", name_of(decode.layers.front().key_cache.type()))
      .set("PAGE", decode.pages.positions);
}

// What distinguishes the programs.
struct TestedProgram {
  DType type, cache_type;  // of the weights, of the caches
  GateFunction function;
  bool is_capped;                      // scores
  std::optional<DType> adapters = {};  // of rows, each with one of its own or with none
};

// A copy in bf16, which is not a temporary: kernels read it by its address.
Tensor bf16_copy(SelfTest& test, const Tensor& of) {
  const Tensor copy =
      test.batch().context().allocate(of.shape(), DType::bf16, MemoryTag::activations);
  record_cast_to_bf16(test.batch(), copy, of);
  return copy;
}

// Adapters of all projections, of rank 3 and 5, in stacks of f32 or with copies in bf16; rows 0 and
// 3 have none.
void add_adapters(SelfTest& test, DecodeLayer& layer, DType type, std::int64_t rows) {
  constexpr std::int64_t kAdapters = 2, kRank = 5;
  const std::vector<RowGroup> groups{{1, 2, 1}, {2, 3, 0, 3, 0.5F}, {4, 5, 1, kRank, 2}};
  const auto used = static_cast<std::size_t>(rows == 1 ? 0 : std::ssize(groups));
  const Tensor table =
      test.input({rows, kRowGroupWords}, row_group_table(rows, std::span(groups).first(used)));
  for (std::size_t p = 0; p < layer.loras.size(); ++p) {
    const Shape& w = matrices_of(layer)[p]->shape();
    LoraWeights& lora = layer.loras[p];
    lora = {.a = test.input({kAdapters, kRank, w[1]}, 0.3F),
            .bt = test.input({kAdapters, kRank, w[0]}, 0.3F),
            .row_groups = table};
    if (type != DType::bf16) continue;
    lora.a_bf16 = bf16_copy(test, lora.a);
    lora.bt_bf16 = bf16_copy(test, lora.bt);
  }
}

// Two blocks of `rows` rows over a partly filled cache; with everything that is optional, or
// without.
void test_layers(SelfTest& test, const TestedProgram& program, std::int64_t rows, bool full) {
  const auto [type, cache_type, function, is_capped, adapters] = program;
  constexpr std::int64_t H = 4, G = 2;
  const std::int64_t E = cache_type == DType::q8_0 ? 32 : 16, D = H * E, F = 2 * D;
  // Stored sums are found by the inputs, which must differ for results that do.
  const std::int64_t positions = (function == GateFunction::silu ? 40 : 41) + (is_capped ? 2 : 0);
  constexpr std::int64_t kPages = 3, kPagePositions = 16, S = kPages * kPagePositions;
  std::vector<std::int32_t> place(static_cast<std::size_t>(rows), 34);
  for (std::size_t m = 0; m < place.size(); ++m) place[m] -= static_cast<std::int32_t>(m);
  const auto matrix = [&](std::int64_t n, std::int64_t k) {
    return test.weights({n, k}, type, Layout::packed);
  };
  const auto optional = [&](std::int64_t n) { return full ? test.input({n}, 0.5F) : Tensor(); };
  DecodeLayers decode{.layers = {},
                      .position = test.input({rows}, place),
                      .last = test.input({rows}, place),
                      .slot = {},
                      .pages = {},
                      .heads = H,
                      .epsilon = 1e-5F,
                      .scale = is_capped ? 1.0F : 0.25F,
                      .soft_cap = is_capped ? kTestedCap : 0.0F,
                      .multiplier = full ? 0.5F : 1.0F,
                      .function = function};
  place_in_pages(test, decode, {kPages, kPagePositions}, place);
  const std::vector<std::int32_t> first(static_cast<std::size_t>(rows), 1);
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
                             .first = test.input({rows}, first),
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
  if (adapters) {
    for (DecodeLayer& layer : decode.layers) add_adapters(test, layer, *adapters, rows);
  }
  const Tensor x = test.changed(test.input({rows, D}));
  const Tensor grid_barrier = test.input({3}, std::vector<std::int32_t>(3));
  if (decodes_in_one_launch(test.batch().context(), decode)) {
    record_decode_layers(test.batch(), x, decode, grid_barrier);
  } else {
    record_decode_layers_unfused(test.batch(), x, decode);
  }
}

// Five rows: four at once, and one.
void test_decode_cpu(SelfTest& test, const TestedProgram& program) {
  test_layers(test, program, 1, false);
  test_layers(test, program, 1, true);
  test_layers(test, program, 5, true);
}

}  // namespace

const char* decode_layers_cpu_refusal(const Context& context, const DecodeLayers& decode) {
  if (context.capabilities().amx) return "matrix tiles are faster";
  if (integer_products(context) == IntegerDots::none) {
    return "it needs dot products of bytes, and precision auto";
  }
  const Tensor& like = decode.layers.front().q;
  if (!is_quantised(like.type())) return "it reads packed quantised weights";
  const bool many = decode_sizes(decode).M > kMaxDecodeRowsCpu;
  if (many) return "products of many rows are faster on tiles";
  for (const DecodeLayer& layer : decode.layers) {
    if (has_joined_adapter(layer, 0) || has_joined_adapter(layer, 4)) {
      return "layers in one have one adapter";
    }
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
  TestedProgram program{.type = first.q.type(),
                        .cache_type = first.key_cache.type(),
                        .function = decode.function,
                        .is_capped = decode.soft_cap != 0};
  std::string name = fmt::format("decode_layers {}", name_of(program.type));
  if (program.function == GateFunction::gelu) name += " gelu";
  if (program.is_capped) name += " capped";
  if (program.cache_type != DType::f32)
    name += fmt::format(" {} cache", name_of(program.cache_type));
  if (decode_is_adapted(decode)) {
    program.adapters = adapter_type_of(decode);
    name += fmt::format(" {} adapters", name_of(*program.adapters));
  }
  return passed_self_test(context, {kDecodeLayersCpu, name, kTolerance},
                          [program](SelfTest& test) { test_decode_cpu(test, program); });
}

void record_decode_layers_cpu(Batch& batch, const Tensor& x, const DecodeLayers& decode,
                              const Tensor& grid_barrier) {
  Context& context = batch.context();
  const DecodeSizes s = decode_sizes(decode);
  const std::uint32_t groups = std::clamp(context.device().compute_units, 1U, kMaxGroups);
  const std::int64_t splits = attention_decode_splits(context.device(), s.M, s.G);
  const auto temporary = [&](Shape shape, std::string_view name) {
    return batch.temporary(shape, DType::f32, name);
  };
  const Defines defines = defines_of(context, decode);
  const std::int64_t R = max_rank(decode);
  const DecodeDims dims{.M = u32(s.M),
                        .R = u32(R),
                        .D = u32(s.D),
                        .F = u32(s.F),
                        .H = u32(s.H),
                        .G = u32(s.G),
                        .E = u32(s.E),
                        .W = u32(s.W),
                        .splits = u32(splits),
                        .table_step = u32(decode.pages.tables.shape()[1]),
                        .post_norms = s.post_norms ? 1U : 0U};
  const std::int64_t streams = s.post_norms ? groups * s.M : 1;
  batch.fill_zero(grid_barrier);
  batch.launch(
      {context.kernel(kDecodeLayersCpu, "decode_layers", defines), single_item_groups(groups),
       decode_layers_cost(decode), "decode_layers/forward", tensors_of(decode)},
      x, temporary({s.M * (s.H + 2 * s.G), s.E}, "heads"),
      temporary({s.M * s.H, splits, s.E + 2}, "attention parts"),
      temporary({groups, s.M * s.H, s.E}, "attention"), temporary({s.M, s.F}, "swiglu"),
      temporary({streams, s.D}, "residual streams"), temporary({s.M, s.D}, "output"),
      R > 0 ? temporary({groups * s.M, s.D}, "normed rows") : x,
      R > 0 ? temporary({3, s.M, R}, "s") : x, decode_table(context, decode), decode.position,
      decode.last, decode.slot, decode.pages.tables, decode.pages.table_of,
      row_groups(context, decode), grid_barrier, by_value(decode_problem(decode)), by_value(dims),
      LocalMemory{scratch_bytes(s)});
}

}  // namespace clora
