#include "ops/gemm/gemm_dispatch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "clora/ops/quant/quant.hpp"
#include "clora/runtime/error.hpp"
#include "ops/dispatch/implementation.hpp"
#include "ops/dispatch/integer_products.hpp"
#include "ops/dispatch/requirements.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/gemm/gemm_groups.hpp"
#include "ops/gemm/gemm_hopper.hpp"
#include "ops/gemm/gemm_matrix.hpp"
#include "ops/gemm/gemm_matrix_self_test.hpp"
#include "ops/gemm/gemm_portable.hpp"
#include "ops/gemm/gemm_wgmma_row_shrink.hpp"
#include "ops/gemm/gemm_wgmma_self_test.hpp"

namespace clora {
namespace {

// Relative to the largest output: x is rounded to 16 bits per block.
constexpr double kInt8Tolerance = 1e-3;

Epilogue test_extras(SelfTest& test, std::int64_t rows, std::int64_t columns, float scale = 0.5F) {
  return {.bias = test.input({columns}),
          .residual = test.input({rows, columns}),
          .low_rank = {test.input({rows, 3}), test.input({3, columns}), 0.5F},
          .scale = scale};
}

// Scaled columns, and rows of two adapters and of none. Kernels decide at run time whether a
// product has them, so they are in the tests of all products.
Epilogue test_adapters(SelfTest& test, std::int64_t rows, std::int64_t columns) {
  const std::array groups{RowGroup{0, 2, 1, 2}, RowGroup{3, rows, 0}};
  return {
      .low_rank = {.s = test.input({rows, 3}),
                   .u = test.input({2, 3, columns}),
                   .scale = 0.5F,
                   .row_groups = test.input({rows, kRowGroupWords}, row_group_table(rows, groups))},
      .column_scale = test.input({columns})};
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
  record_gemm(test.batch(), test.output({kRows, columns}), test.input({kRows, 256}), w,
              test_adapters(test, kRows, columns));
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
                test_adapters(test, rows, kColumns));
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
  const Tensor w = test.weights({columns, 256}, like.type(), like.layout());
  for (const Epilogue& epilogue :
       {test_extras(test, kRows, columns), test_adapters(test, kRows, columns)}) {
    record_gemm(test.batch(), test.output({kRows, columns}), test.input({kRows, 256}), w, epilogue);
  }
}

// The kernels for CPUs in the names of self-tests, which are the keys of the known sums.
std::string_view cpu_kernels_of(const Context& context) {
  const Capabilities& has = context.capabilities();
  if (has.amx) return "amx";
  if (has.bf16_dots) return "avx512_bf16";
  return has.integer_dots != IntegerDots::none ? "cpu_int8" : "cpu";
}

bool tiles_passed(Context& context, const Tensor& w, bool bf16) {
  const std::string arithmetic = bf16 ? fmt::format("_{}", cpu_kernels_of(context)) : "";
  const std::string name = fmt::format("gemm{}_tiles {}", arithmetic, weight_name(w));
  return passed_self_test(
      context, {bf16 ? kGemmBf16Tiles : kGemmTiles, name, bf16 ? kBf16Tolerance : kF32Tolerance},
      [&](SelfTest& test) { test_tiles(test, w, bf16); });
}

bool packed_passed(Context& context, const Tensor& w) {
  const bool bf16 = w.type() == DType::bf16;
  return passed_self_test(
      context,
      {kGemmPacked, fmt::format("gemm_packed_{} {}", cpu_kernels_of(context), weight_name(w)),
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

// Whether operands of the product are rounded to bf16.
bool rounds(const Context& context, const GemmProduct& p) {
  return rounds_to_bf16(context, p.size(), p.backward);
}

bool is_skinny_product(const Context& context, const GemmProduct& p) {
  return !p.backward && is_skinny(context, p.rows());
}

bool has_packed_floats(const Tensor& w) {
  return w.layout() == Layout::packed && !is_quantised(w.type());
}

// The product as the wgmma kernel is launched for it: the shrink may be faster as its own launch.
GemmProduct as_wgmma_takes_it(const Context& context, GemmProduct p) {
  if (p.has_shrink() && !gemm_wgmma_fuses_shrink(context, p)) p.epilogue.low_rank.a = {};
  return p;
}

constexpr const char* kForFewRows = "it is for forward products of few rows";
constexpr const char* kForManyRows = "it is for backward products and products of many rows";

bool never_fuses(const Context&, const GemmProduct&) { return false; }

const char* many_rows_refusal(const Context& context, const GemmProduct& p) {
  return is_skinny_product(context, p) ? kForManyRows : nullptr;
}
// The implementation of other matrix units takes the products that it refuses.
const char* wgmma_refusal(const Context& context, const GemmProduct& p) {
  if (!p.epilogue.column_scale.empty() && p.has_row_groups()) {
    return "it does not scale columns of rows with adapters of their own";
  }
  if (p.has_row_groups() && !(is_row_shrink(p) && can_shrink_rows(p))) {
    return "it takes rows of several adapters only with their shrink, and if they are few";
  }
  return many_rows_refusal(context, p);
}
// Against K, the most ranks of a stack that the implementation over wgmma multiplies for all rows:
// each row needs those of one adapter only.
constexpr std::int64_t kWideShare = 4;
// On Hopper, what the implementation over wgmma does not take.
const char* matrix_refusal(const Context& context, const GemmProduct& p) {
  const bool is_hopper = context.capabilities().matrix == MatrixInstruction::wgmma;
  if (is_hopper && wgmma_refusal(context, p) == nullptr) return "wgmma is faster";
  return many_rows_refusal(context, p);
}
const char* few_rows_refusal(const Context& context, const GemmProduct& p) {
  return is_skinny_product(context, p) ? nullptr : kForFewRows;
}

bool wgmma_passed(Context& context, const GemmProduct& p) {
  const GemmProduct launched = as_wgmma_takes_it(context, p);
  return gemm_wgmma_passed(context, {&launched, 1});
}
bool wgmma_can_group(Context& context, std::span<const GemmProduct> problems) {
  return gemm_wgmma_can_group(context, problems) && gemm_wgmma_passed(context, problems);
}
bool matrix_passed(Context& context, const GemmProduct& p) {
  return gemm_matrix_passed(context, {&p, 1});
}
bool matrix_computes_shrink(const Context&, const GemmProduct&) { return true; }
bool matrix_can_group(Context& context, std::span<const GemmProduct> problems) {
  return can_be_grouped(problems) && gemm_matrix_passed(context, problems);
}
void record_matrix(Batch& batch, const GemmProduct& p) { record_gemm_matrix(batch, {&p, 1}); }
void record_wgmma(Batch& batch, const GemmProduct& p) { record_gemm_wgmma(batch, {&p, 1}); }

bool skinny_cpu_passed(Context& context, const GemmProduct& p) {
  return skinny_passed(context, p.w);
}

const char* skinny_packed_refusal(const Context& context, const GemmProduct& p) {
  if (const char* refusal = few_rows_refusal(context, p)) return refusal;
  return has_packed_floats(p.w) ? nullptr : "it reads packed weights of floats";
}
bool skinny_packed_cpu_passed(Context& context, const GemmProduct& p) {
  return skinny_packed_passed(context, p.w);
}

const char* skinny_int8_refusal(const Context& context, const GemmProduct& p) {
  if (const char* refusal = few_rows_refusal(context, p)) return refusal;
  if (p.w.layout() != Layout::packed || !is_quantised(p.w.type())) {
    return "it reads packed quantised weights";
  }
  if (integer_products(context) == IntegerDots::none) {
    return "it needs dot products of bytes, and precision auto";
  }
  const bool fits = int8_row_bytes(p.k()) <= context.device().local_memory_bytes;
  return fits ? nullptr : "a row of x exceeds the local memory";
}
bool skinny_int8_cpu_passed(Context& context, const GemmProduct& p) {
  return int8_passed(context, p.w);
}

bool tiles_cpu_passed(Context& context, const GemmProduct& p) {
  return tiles_passed(context, p.w, false);
}
void record_tiles_cpu(Batch& batch, const GemmProduct& p) { record_gemm_tiles(batch, p, false); }

const char* bf16_tiles_refusal(const Context& context, const GemmProduct& p) {
  if (const char* refusal = many_rows_refusal(context, p)) return refusal;
  return rounds(context, p) ? nullptr : "it is for more than 16 columns";
}
bool bf16_tiles_cpu_passed(Context& context, const GemmProduct& p) {
  return tiles_passed(context, p.w, true);
}
void record_bf16_tiles(Batch& batch, const GemmProduct& p) { record_gemm_tiles(batch, p, true); }

const char* packed_refusal(const Context& context, const GemmProduct& p) {
  if (const char* refusal = many_rows_refusal(context, p)) return refusal;
  const bool bf16 = rounds(context, p);
  if (p.backward) return "it is for forward products";
  if (!has_packed_floats(p.w) || (p.w.type() == DType::bf16) != bf16) {
    return "it reads packed weights of the type that is multiplied";
  }
  if (p.epilogue.scale != 1 && context.capabilities().amx) return "matrix tiles do not scale";
  const bool fits = gemm_packed_tiles(context.device(), context.capabilities(), bf16).has_value();
  return fits ? nullptr : "its tiles exceed the local memory";
}
bool packed_cpu_passed(Context& context, const GemmProduct& p) {
  return packed_passed(context, p.w);
}

// Only products that no kernel before it takes alone.
bool portable_can_group(Context& context, std::span<const GemmProduct> problems) {
  const auto takes = [&](const GemmProduct& p) {
    return choose_gemm(context, p).name == "portable";
  };
  return std::ranges::all_of(problems, takes) && gemm_portable_can_group(context, problems);
}

constexpr GemmImplementation kImplementations[] = {
    {"wgmma", kGemmWgmma, needs_wgmma, wgmma_refusal, wgmma_passed, gemm_wgmma_fuses_shrink,
     record_wgmma, true, true, wgmma_can_group, record_gemm_wgmma, true},
    {"matrix", kGemmMatrix, needs_any_matrix_unit, matrix_refusal, matrix_passed,
     matrix_computes_shrink, record_matrix, true, true, matrix_can_group, record_gemm_matrix},
    {"skinny_int8_cpu", kGemmSkinnyInt8, needs_cpu, skinny_int8_refusal, skinny_int8_cpu_passed,
     never_fuses, record_gemm_skinny_int8},
    {"skinny_packed_cpu", kGemmSkinnyPacked, needs_cpu, skinny_packed_refusal,
     skinny_packed_cpu_passed, never_fuses, record_gemm_skinny_packed},
    {"skinny_cpu", kGemmSkinny, needs_cpu, few_rows_refusal, skinny_cpu_passed, never_fuses,
     record_gemm_skinny},
    {"packed_cpu", kGemmPacked, needs_cpu, packed_refusal, packed_cpu_passed,
     gemm_packed_fuses_shrink, record_gemm_packed},
    {"bf16_cpu", kGemmBf16Tiles, needs_bf16_cpu, bf16_tiles_refusal, bf16_tiles_cpu_passed,
     gemm_bf16_tiles_fuse_shrink, record_bf16_tiles},
    {"cpu", kGemmTiles, needs_cpu, many_rows_refusal, tiles_cpu_passed, never_fuses,
     record_tiles_cpu},
    {"skinny_ptx", kGemmSkinnyPortable, needs_ptx, few_rows_refusal, gemm_skinny_ptx_passed,
     gemm_skinny_fuses_shrink, record_gemm_skinny_ptx},
    {"skinny", kGemmSkinnyPortable, needs_nothing, few_rows_refusal, needs_no_test,
     gemm_skinny_fuses_shrink, record_gemm_skinny_portable},
    {"portable", "gemm.cl", needs_nothing, refuses_nothing, needs_no_test, never_fuses,
     record_gemm_portable, false, false, portable_can_group, record_gemm_portable_group},
};
constexpr ImplementationList<GemmImplementation> kList{"gemm", kImplementations};

}  // namespace

const ImplementationList<GemmImplementation>& gemm_implementations() { return kList; }

const GemmImplementation& choose_gemm(Context& context, const GemmProduct& p) {
  return choose_implementation(context, kList, p);
}

const GemmImplementation* choose_gemm_group(Context& context,
                                            std::span<const GemmProduct> problems) {
  const ImplementationChoice choice(context, kList.family);
  const auto takes = [&](const GemmImplementation& each) {
    return each.can_group != nullptr && choice.allows(each.name) &&
           std::ranges::all_of(
               problems,
               [&](const GemmProduct& p) { return refusal_of(each, context, p) == nullptr; }) &&
           each.can_group(context, problems);
  };
  const auto found = std::ranges::find_if(kImplementations, takes);
  return found != std::end(kImplementations) ? &*found : nullptr;
}

bool gemm_takes_wide_ranks(const Context& context, const GemmProduct& p) {
  if (needs_wgmma(context) != nullptr) return false;
  GemmProduct wide = p;
  wide.epilogue.low_rank.row_groups = {};
  wide.epilogue.low_rank.a = {};
  const std::int64_t ranks = p.low_rank().u.shape()[0] * p.rank();
  return wgmma_refusal(context, wide) == nullptr && kWideShare * ranks <= p.k();
}

bool gemm_shrinks_rows(Context& context, std::span<const GemmProduct> problems) {
  const auto may = std::ranges::all_of(problems, [&](const GemmProduct& p) {
    return is_row_shrink(p) && gemm_takes_wide_ranks(context, p) &&
           wgmma_refusal(context, p) == nullptr;
  });
  if (!may) return false;
  const auto* chosen = problems.size() == 1 ? &choose_gemm(context, problems.front())
                                            : choose_gemm_group(context, problems);
  return chosen != nullptr && chosen->shrinks_rows;
}

bool gemm_reads_bf16_adapter(const Context& context) {
  return std::ranges::any_of(kImplementations, [&](const GemmImplementation& each) {
    return each.reads_bf16_adapter && each.unavailable(context) == nullptr;
  });
}

}  // namespace clora
