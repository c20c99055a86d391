#include "ops/gemm.hpp"

#include "ops/activations.hpp"
#include "ops/gemm_hopper.hpp"
#include "ops/gemm_kernels.hpp"
#include "ops/launch_shape.hpp"
#include "ops/quant.hpp"
#include "ops/variant_choice.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

// Of the largest output: rows of x keep 16 bits a block.
constexpr double kInt8Tolerance = 1e-3;

GemmExtras test_extras(SelfTest& test, std::int64_t rows, std::int64_t columns,
                       float scale = 0.5F) {
  return {.bias = test.input({columns}),
          .residual = test.input({rows, columns}),
          .low_rank = {test.input({rows, 3}), test.input({3, columns}), 0.5F},
          .scale = scale};
}

// Several tiles each way, cut at their ends; s is given, or made where these tiles make it: else it
// would be another kernel's, which a self-test does not build.
void test_tiles(SelfTest& test, const Tensor& like, bool makes_s) {
  constexpr std::int64_t kRows = 2 * GemmTiles::kAmxRows + 1;
  const std::int64_t columns =
      2 * GemmTiles::kColumns + (like.layout() == Layout::strips ? kStripRows : 3);
  const Tensor w = test.weights({columns, 256}, like.type(), like.layout());
  record_gemm(test.batch(), test.output({kRows, columns}), test.input({kRows, 256}), w,
              test_extras(test, kRows, columns));
  record_gemm_backward(test.batch(), test.output({kRows, 256}), test.input({kRows, columns}), w,
                       Accumulate::no);
  if (!makes_s) return;
  record_gemm(test.batch(), test.output({kRows, columns}), test.input({kRows, 256}), w,
              {.low_rank = {test.output({kRows, 7}), test.input({7, columns}), 0.5F,
                            test.input({7, 256}), 0.5F}});
}

// A tile of each number of rows, panels of one strip and two; matrix tiles take no scale, and store
// differently what has no bias; s is given or made.
void test_strips(SelfTest& test, const Tensor& like) {
  constexpr std::int64_t kColumns = 2 * GemmTiles::kColumns + kStripRows;
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

// More than a tile each way, cut at their ends, with all that may be added; s is made, and columns
// fill no pieces.
void test_wgmma(SelfTest& test, const Tensor& like) {
  constexpr std::int64_t kRows = 150, kColumns = 264, kSteps = 256;
  const Tensor w = test.weights({kColumns, kSteps}, like.type(), like.layout());
  const Tensor narrow = test.weights({kColumns - 3, kSteps}, like.type(), Layout::plain);
  const auto activations = [&](Shape shape) { return test.input(shape, 1, DType::bf16); };
  record_gemm(test.batch(), test.output({kRows, kColumns}), test.input({kRows, kSteps}), w,
              test_extras(test, kRows, kColumns));
  record_gemm_backward(test.batch(), test.output({kRows, kSteps}), test.input({kRows, kColumns}), w,
                       Accumulate::no, {test.input({kRows, 3}), test.input({3, kSteps}), 0.5F});
  record_gemm(test.batch(), test.output({kRows, kColumns}, DType::bf16),
              activations({kRows, kSteps}), w,
              {.residual = activations({kRows, kColumns}),
               .low_rank = {test.output({kRows, 7}), test.input({7, kColumns}), 0.5F,
                            test.input({7, kSteps}), 0.5F}});
  record_gemm(test.batch(), test.output({kRows, kColumns - 3}), activations({kRows, kSteps}),
              narrow);
}

// One row, and some that are taken together.
void test_few_rows(SelfTest& test, const Tensor& like) {
  const std::int64_t columns = 2 * kStripRows + (like.layout() == Layout::strips ? kStripRows : 5);
  constexpr std::int64_t kRows = 5;
  record_gemm(test.batch(), test.output({kRows, columns}), test.input({kRows, 256}),
              test.weights({columns, 256}, like.type(), like.layout()),
              test_extras(test, kRows, columns));
}

bool trusts_tiles(Context& context, const Tensor& w, bool bf16) {
  const std::string arithmetic = bf16 ? fmt::format("_{}", name_of(context.variant())) : "";
  const std::string name = fmt::format("gemm{}_tiles {}", arithmetic, weight_name(w));
  return trusted(context,
                 {bf16 ? kGemmBf16Tiles : kGemmTiles, name, bf16 ? kBf16Tolerance : kF32Tolerance},
                 [&](SelfTest& test) { test_tiles(test, w, bf16); });
}

bool trusts_strips(Context& context, const Tensor& w) {
  const bool bf16 = w.type() == DType::bf16;
  return trusted(
      context,
      {kGemmStrips, fmt::format("gemm_strips_{} {}", name_of(context.variant()), weight_name(w)),
       bf16 ? kBf16Tolerance : kF32Tolerance},
      [&](SelfTest& test) { test_strips(test, w); });
}

bool trusts_wgmma(Context& context, const Tensor& w) {
  return trusted(context,
                 {kGemmWgmma, fmt::format("gemm_wgmma {}", weight_name(w)), kBf16Tolerance},
                 [&](SelfTest& test) { test_wgmma(test, w); });
}

bool trusts_few_rows(Context& context, const Tensor& w) {
  return trusted(context, {kGemmFewRows, fmt::format("gemm_few_rows {}", weight_name(w))},
                 [&](SelfTest& test) { test_few_rows(test, w); });
}

bool trusts_few_rows_strips(Context& context, const Tensor& w) {
  const std::string name = fmt::format("gemm_few_rows_strips {}", weight_name(w));
  return trusted(context, {kGemmFewRowsStrips, name},
                 [&](SelfTest& test) { test_few_rows(test, w); });
}

bool trusts_int8(Context& context, const Tensor& w) {
  const std::string name = fmt::format("gemm_few_rows_int8 {}", weight_name(w));
  return trusted(context, {kGemmFewRowsInt8, name, kInt8Tolerance},
                 [&](SelfTest& test) { test_few_rows(test, w); });
}

bool lies_in_float_strips(const Tensor& w) {
  return w.layout() == Layout::strips && !is_quantised(w.type());
}

bool multiplies_integers(const Context& context, const GemmProduct& p) {
  return p.w.layout() == Layout::strips && is_quantised(p.w.type()) &&
         has_cpu_matrix_unit(context.variant()) && context.device().int8_dots &&
         int8_row_bytes(p) <= context.device().local_memory_bytes;
}

// Strips hold what the product multiplies: bf16 where it rounds, else f32.
bool multiplies_strips(const Context& context, const GemmProduct& p, bool bf16) {
  const bool as_they_lie = lies_in_float_strips(p.w) && (p.w.type() == DType::bf16) == bf16;
  const bool scales = p.alpha != 1 && context.variant() == Variant::amx;
  return as_they_lie && !p.backward && !scales &&
         gemm_strips(context.device(), context.variant(), bf16).has_value();
}

enum class GemmKernel {
  portable,
  few_rows_portable,
  wgmma,
  tiles,
  bf16_tiles,
  strips,
  few_rows,
  few_rows_strips,
  few_rows_int8
};

GemmKernel kernel_for_few_rows(Context& context, const GemmProduct& p) {
  if (!is_for_cpus(context.variant())) return GemmKernel::few_rows_portable;
  if (multiplies_integers(context, p) && trusts_int8(context, p.w))
    return GemmKernel::few_rows_int8;
  if (lies_in_float_strips(p.w) && trusts_few_rows_strips(context, p.w)) {
    return GemmKernel::few_rows_strips;
  }
  return trusts_few_rows(context, p.w) ? GemmKernel::few_rows : GemmKernel::few_rows_portable;
}

GemmKernel kernel_for_many_rows(Context& context, const GemmProduct& p) {
  const bool bf16 = rounds_to_bf16(context.variant(), p.size(), p.backward);
  if (!is_for_cpus(context.variant())) {
    return bf16 && trusts_wgmma(context, p.w) ? GemmKernel::wgmma : GemmKernel::portable;
  }
  if (multiplies_strips(context, p, bf16) && trusts_strips(context, p.w)) return GemmKernel::strips;
  if (bf16 && trusts_tiles(context, p.w, true)) return GemmKernel::bf16_tiles;
  return trusts_tiles(context, p.w, false) ? GemmKernel::tiles : GemmKernel::portable;
}

void record_product(Batch& batch, GemmProduct p);

void record_with(GemmKernel kernel, Batch& batch, const GemmProduct& p) {
  switch (kernel) {
    case GemmKernel::portable:
      return record_gemm_portable(batch, p);
    case GemmKernel::few_rows_portable:
      return record_gemm_few_rows_portable(batch, p);
    case GemmKernel::wgmma:
      return record_gemm_wgmma(batch, p);
    case GemmKernel::tiles:
      return record_gemm_tiles(batch, p, false);
    case GemmKernel::bf16_tiles:
      return record_gemm_tiles(batch, p, true);
    case GemmKernel::strips:
      return record_gemm_strips(batch, p);
    case GemmKernel::few_rows:
      return record_gemm_few_rows(batch, p);
    case GemmKernel::few_rows_strips:
      return record_gemm_few_rows_strips(batch, p);
    case GemmKernel::few_rows_int8:
      return record_gemm_few_rows_int8(batch, p);
  }
}

// Whether `kernel` makes s of p in its own launch: the one place that says so.
bool makes_s(GemmKernel kernel, const Context& context, const GemmProduct& p) {
  switch (kernel) {
    case GemmKernel::wgmma:
      return gemm_wgmma_makes_s(context, p);
    case GemmKernel::few_rows_portable:
      return gemm_few_rows_make_s(context, p);
    case GemmKernel::strips:
      return gemm_strips_make_s(context, p);
    case GemmKernel::bf16_tiles:
      return gemm_bf16_tiles_make_s(context, p);
    default:
      return false;
  }
}

// On a device with kernels for CPUs: they know f32 alone.
void record_product_widened(Batch& batch, GemmProduct p) {
  const Tensor y = std::exchange(p.y, f32_result(batch, p.y));
  p.x = record_widened(batch, p.x);
  if (!p.start.empty()) p.start = record_widened(batch, p.start);
  record_product(batch, p);
  record_result(batch, y, p.y);
}

// For kernels that know an f32 s alone.
void record_with_f32_s(Batch& batch, GemmProduct p) {
  if (!p.makes_s()) {
    p.low_rank.s = record_widened(batch, p.low_rank.s);
    return record_product(batch, p);
  }
  const Tensor s = std::exchange(p.low_rank.s, f32_result(batch, p.low_rank.s));
  record_product(batch, p);
  record_result(batch, s, p.low_rank.s);
}

void record_product(Batch& batch, GemmProduct p) {
  Context& context = batch.context();
  if (is_for_cpus(context.variant()) && !p.is_f32()) return record_product_widened(batch, p);
  const bool few = !p.backward && has_few_rows(context.variant(), p.rows());
  const GemmKernel kernel =
      few ? kernel_for_few_rows(context, p) : kernel_for_many_rows(context, p);
  const bool f32_s = p.rank() == 0 || p.low_rank.s.type() == DType::f32;
  if (!f32_s && kernel != GemmKernel::wgmma) return record_with_f32_s(batch, p);
  if (p.makes_s() && !makes_s(kernel, context, p)) {
    record_product(batch, {.y = p.low_rank.s,
                           .x = p.x,
                           .w = std::exchange(p.low_rank.a, {}),
                           .start = {},
                           .bias = {},
                           .low_rank = {},
                           .alpha = p.low_rank.a_scale});
  }
  record_with(kernel, batch, p);
}

void require_rows(std::string_view op, std::string_view name, const Tensor& t) {
  require(!t.empty() && t.shape().rank() == 2 && t.elements() > 0,
          "{}: {} must be a matrix of f32 or bf16, got {}", op, name,
          t.empty() ? "nothing" : t.text());
  require_activation(op, name, t, t.shape());
}

void require_low_rank(std::string_view op, const LowRankTerm& term, const Tensor& y,
                      const Tensor& x) {
  if (term.s.empty()) {
    require(term.u.empty() && term.a.empty(),
            "{}: low_rank.{} is given without low_rank.s; give both or none", op,
            term.u.empty() ? "a" : "u");
    return;
  }
  require_rows(op, "low_rank.s", term.s);
  const std::int64_t rank = term.s.shape()[1];
  const auto require_rounded = [&](std::string_view name, const Tensor& t, const Tensor& of) {
    if (!t.empty()) require_tensor(op, name, t, of.shape(), DType::bf16);
  };
  require_activation(op, "low_rank.s", term.s, {y.shape()[0], rank});
  require_tensor(op, "low_rank.u", term.u, {rank, y.shape()[1]});
  require_rounded("low_rank.u_rounded", term.u_rounded, term.u);
  require(!overlap(y, term.s), "{}: the output must not alias low_rank.s", op);
  if (term.a.empty()) return;
  require_tensor(op, "low_rank.a", term.a, {rank, x.shape()[1]});
  require_rounded("low_rank.a_rounded", term.a_rounded, term.a);
  require(!overlap(term.s, x), "{}: low_rank.s must not alias the input where it is made", op);
}

}  // namespace

void record_gemm(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& w,
                 const GemmExtras& extras) {
  require_weight("gemm", "w", w);
  require_rows("gemm", "x", x);
  require_activation("gemm", "x", x, {x.shape()[0], w.shape()[1]});
  require_activation("gemm", "y", y, {x.shape()[0], w.shape()[0]});
  if (!extras.bias.empty()) require_tensor("gemm", "bias", extras.bias, {w.shape()[0]});
  if (!extras.residual.empty()) {
    require_tensor("gemm", "residual", extras.residual, y.shape(), y.type());
  }
  require_low_rank("gemm", extras.low_rank, y, x);
  require(!overlap(y, x), "gemm: y must not alias x");
  record_product(batch, {.y = y,
                         .x = x,
                         .w = w,
                         .start = extras.residual,
                         .bias = extras.bias,
                         .low_rank = extras.low_rank,
                         .alpha = extras.scale});
}

void record_gemm_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& w,
                          Accumulate accumulate, const LowRankTerm& low_rank) {
  require_weight("gemm backward", "w", w);
  require_rows("gemm backward", "dy", dy);
  require_activation("gemm backward", "dy", dy, {dy.shape()[0], w.shape()[0]});
  require_activation("gemm backward", "dx", dx, {dy.shape()[0], w.shape()[1]});
  require_low_rank("gemm backward", low_rank, dx, dy);
  require(!overlap(dx, dy), "gemm backward: dx must not alias dy");
  record_product(batch, {.y = dx,
                         .x = dy,
                         .w = w,
                         .start = accumulate == Accumulate::yes ? dx : Tensor(),
                         .bias = {},
                         .low_rank = low_rank,
                         .backward = true});
}

Cost gemm_cost(std::int64_t m, const Tensor& w) {
  const auto rows = static_cast<double>(m);
  const auto n = static_cast<double>(w.shape()[0]);
  const auto k = static_cast<double>(w.shape()[1]);
  return {2 * rows * n * k, 4 * rows * (n + k) + static_cast<double>(w.bytes())};
}

}  // namespace clora
