#include "ops/gemm/gemm_dispatch.hpp"

#include <fmt/format.h>

#include "clora/ops/quant/quant.hpp"
#include "clora/runtime/error.hpp"
#include "ops/dispatch/integer_products.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/gemm/gemm_hopper.hpp"
#include "ops/gemm/gemm_wgmma_self_test.hpp"

namespace clora {
namespace {

// Relative to the largest output: x is rounded to 16 bits per block.
constexpr double kInt8Tolerance = 1e-3;

GemmExtras test_extras(SelfTest& test, std::int64_t rows, std::int64_t columns,
                       float scale = 0.5F) {
  return {.bias = test.input({columns}),
          .residual = test.input({rows, columns}),
          .low_rank = {test.input({rows, 3}), test.input({3, columns}), 0.5F},
          .scale = scale};
}

// Several tiles in each dimension, the last ones partial. s is an input or, if these tiles can fuse
// the shrink, computed: otherwise another kernel would compute s, which a self-test does not build.
void test_tiles(SelfTest& test, const Tensor& like, bool fuses_shrink) {
  constexpr std::int64_t kRows = std::int64_t{2} * GemmTiles::kAmxRows + 1;
  const std::int64_t columns =
      std::int64_t{2} * GemmTiles::kColumns + (like.layout() == Layout::packed ? kPackedRows : 3);
  const Tensor w = test.weights({columns, 256}, like.type(), like.layout());
  record_gemm(test.batch(), test.output({kRows, columns}), test.input({kRows, 256}), w,
              test_extras(test, kRows, columns));
  record_gemm_backward(test.batch(), test.output({kRows, 256}), test.input({kRows, columns}), w,
                       Accumulate::no);
  if (!fuses_shrink) return;
  record_gemm(test.batch(), test.output({kRows, columns}), test.input({kRows, 256}), w,
              {.low_rank = {test.output({kRows, 7}), test.input({7, columns}), 0.5F,
                            test.input({7, 256}), 0.5F}});
}

// Tiles of every number of rows, half and full panels. Matrix tiles support no scale, and use a
// different store if there is no bias. s is an input or computed.
void test_packed(SelfTest& test, const Tensor& like) {
  constexpr std::int64_t kColumns = std::int64_t{2} * GemmTiles::kColumns + kPackedRows;
  const Tensor w = test.weights({kColumns, 256}, like.type(), like.layout());
  for (const std::int64_t rows : {64, 20}) {
    for (const float scale : {1.0F, 0.5F}) {
      record_gemm(test.batch(), test.output({rows, kColumns}), test.input({rows, 256}), w,
                  test_extras(test, rows, kColumns, scale));
    }
    record_gemm(test.batch(), test.output({rows, kColumns}), test.input({rows, 256}), w,
                {.residual = test.input({rows, kColumns})});
    record_gemm(test.batch(), test.output({rows, kColumns}), test.input({rows, 256}), w,
                {.low_rank = {test.output({rows, 7}), test.input({7, kColumns}), 0.5F,
                              test.input({7, 256}), 0.5F}});
  }
}

// A single row, and several rows that are processed together.
void test_skinny(SelfTest& test, const Tensor& like) {
  const std::int64_t columns =
      2 * kPackedRows + (like.layout() == Layout::packed ? kPackedRows : 5);
  constexpr std::int64_t kRows = 5;
  record_gemm(test.batch(), test.output({kRows, columns}), test.input({kRows, 256}),
              test.weights({columns, 256}, like.type(), like.layout()),
              test_extras(test, kRows, columns));
}

bool tiles_passed(Context& context, const Tensor& w, bool bf16) {
  const std::string arithmetic = bf16 ? fmt::format("_{}", name_of(context.variant())) : "";
  const std::string name = fmt::format("gemm{}_tiles {}", arithmetic, weight_name(w));
  return passed_self_test(
      context, {bf16 ? kGemmBf16Tiles : kGemmTiles, name, bf16 ? kBf16Tolerance : kF32Tolerance},
      [&](SelfTest& test) { test_tiles(test, w, bf16); });
}

bool packed_passed(Context& context, const Tensor& w) {
  const bool bf16 = w.type() == DType::bf16;
  return passed_self_test(
      context,
      {kGemmPacked, fmt::format("gemm_packed_{} {}", name_of(context.variant()), weight_name(w)),
       bf16 ? kBf16Tolerance : kF32Tolerance},
      [&](SelfTest& test) { test_packed(test, w); });
}

bool skinny_passed(Context& context, const Tensor& w) {
  return passed_self_test(context, {kGemmSkinny, fmt::format("gemm_skinny {}", weight_name(w))},
                          [&](SelfTest& test) { test_skinny(test, w); });
}

bool skinny_packed_passed(Context& context, const Tensor& w) {
  const std::string name = fmt::format("gemm_skinny_packed {}", weight_name(w));
  return passed_self_test(context, {kGemmSkinnyPacked, name},
                          [&](SelfTest& test) { test_skinny(test, w); });
}

bool int8_passed(Context& context, const Tensor& w) {
  const std::string name = fmt::format("gemm_skinny_int8 {}", weight_name(w));
  return passed_self_test(context, {kGemmSkinnyInt8, name, kInt8Tolerance},
                          [&](SelfTest& test) { test_skinny(test, w); });
}

bool has_packed_floats(const Tensor& w) {
  return w.layout() == Layout::packed && !is_quantised(w.type());
}

bool multiplies_integers(const Context& context, const GemmProduct& p) {
  return p.w.layout() == Layout::packed && is_quantised(p.w.type()) &&
         integer_products(context) != IntegerDots::none &&
         int8_row_bytes(p) <= context.device().local_memory_bytes;
}

// Whether packed panels hold the operand type of the product: bf16 if it rounds, else f32.
bool multiplies_packed(const Context& context, const GemmProduct& p, bool bf16) {
  const bool in_place = has_packed_floats(p.w) && (p.w.type() == DType::bf16) == bf16;
  const bool scales = p.alpha != 1 && context.variant() == Variant::amx;
  return in_place && !p.backward && !scales &&
         gemm_packed_tiles(context.device(), context.variant(), bf16).has_value();
}

bool is_skinny_product(const Context& context, const GemmProduct& p) {
  return !p.backward && is_skinny(context.variant(), p.rows());
}

GemmKernel dispatch_skinny(Context& context, const GemmProduct& p) {
  if (!is_for_cpus(context.variant())) return GemmKernel::skinny_portable;
  if (multiplies_integers(context, p) && int8_passed(context, p.w)) return GemmKernel::skinny_int8;
  if (has_packed_floats(p.w) && skinny_packed_passed(context, p.w)) {
    return GemmKernel::skinny_packed;
  }
  return skinny_passed(context, p.w) ? GemmKernel::skinny : GemmKernel::skinny_portable;
}

bool wants_wgmma(const Context& context, const GemmProduct& p) {
  return context.variant() == Variant::wgmma &&
         rounds_to_bf16(context.variant(), p.size(), p.backward) && !is_skinny_product(context, p);
}

// The product as the wgmma kernel is launched for it: the shrink may be faster as its own launch.
GemmProduct as_wgmma_takes_it(const Context& context, GemmProduct p) {
  if (p.has_shrink() && !gemm_wgmma_fuses_shrink(context, p)) p.low_rank.a = {};
  return p;
}

GemmKernel dispatch_many_rows(Context& context, const GemmProduct& p) {
  const bool bf16 = rounds_to_bf16(context.variant(), p.size(), p.backward);
  if (!is_for_cpus(context.variant())) {
    if (wants_wgmma(context, p)) {
      const GemmProduct launched = as_wgmma_takes_it(context, p);
      return gemm_wgmma_passed(context, {&launched, 1}) ? GemmKernel::wgmma : GemmKernel::portable;
    }
    return bf16 && gemm_mma_passed(context, p) ? GemmKernel::mma : GemmKernel::portable;
  }
  if (multiplies_packed(context, p, bf16) && packed_passed(context, p.w)) return GemmKernel::packed;
  if (bf16 && tiles_passed(context, p.w, true)) return GemmKernel::bf16_tiles;
  return tiles_passed(context, p.w, false) ? GemmKernel::tiles : GemmKernel::portable;
}

}  // namespace

GemmKernel dispatch_gemm(Context& context, const GemmProduct& p) {
  return is_skinny_product(context, p) ? dispatch_skinny(context, p)
                                       : dispatch_many_rows(context, p);
}

bool can_group(Context& context, std::span<const GemmProduct> problems) {
  for (const GemmProduct& p : problems) {
    if (!wants_wgmma(context, p)) return false;
  }
  return gemm_wgmma_can_group(context, problems) && gemm_wgmma_passed(context, problems);
}

bool fuses_shrink(GemmKernel kernel, const Context& context, const GemmProduct& p) {
  switch (kernel) {
    case GemmKernel::wgmma:
      return gemm_wgmma_fuses_shrink(context, p);
    case GemmKernel::skinny_portable:
      return gemm_skinny_fuses_shrink(context, p);
    case GemmKernel::packed:
      return gemm_packed_fuses_shrink(context, p);
    case GemmKernel::bf16_tiles:
      return gemm_bf16_tiles_fuse_shrink(context, p);
    default:
      return false;
  }
}

}  // namespace clora
