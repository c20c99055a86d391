#include "ops/gemm.hpp"

#include <algorithm>

#include "ops/gemm_plan.hpp"
#include "ops/launch_shape.hpp"
#include "ops/quant.hpp"
#include "ops/variant_choice.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

constexpr std::string_view kTiles = "gemm_cpu.cl";
constexpr std::string_view kBf16Tiles = "gemm_bf16_cpu.cl";
constexpr std::string_view kInt8 = "gemm_few_rows_int8_cpu.cl";

// cl/gemm.cl
constexpr std::uint32_t kTile = 64;
constexpr std::uint32_t kSide = 16;
constexpr std::uint32_t kSteps = 16;
constexpr std::uint32_t kRowItems = 64;
constexpr std::int64_t kOneRowKernelUpTo = 4;
// cl/gemm_few_rows_cpu.cl; a strip's rows, too
constexpr std::uint32_t kRowsAtOnce = 16;
// Of the largest output: rows of x keep 16 bits a block.
constexpr double kInt8Tolerance = 1e-3;

// What both directions have in common: y [M, C] from x [M, J].
struct Product {
  Tensor y;
  Tensor x;
  Tensor w;
  Tensor start;  // added; empty: nothing
  Tensor bias;
  LowRankTerm low_rank;
  float alpha = 1;
  bool backward = false;

  std::int64_t rows() const { return y.shape()[0]; }
  std::int64_t columns() const { return y.shape()[1]; }
  std::int64_t steps() const { return x.shape()[1]; }
  std::int64_t rank() const { return low_rank.s.empty() ? 0 : low_rank.s.shape()[1]; }
  GemmSize size() const;
};

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

// An odd number of steps is filled up by kernels of pairs.
GemmSize Product::size() const {
  return {u32(rows()), u32(columns()), u32(steps() + steps() % 2 + rank())};
}

// A kernel argument for a tensor that may be absent: then any other one, which is not touched.
const Tensor& or_else(const Tensor& tensor, const Tensor& stand_in) {
  return tensor.empty() ? stand_in : tensor;
}

std::vector<Argument> arguments_of(const Product& p) {
  return {p.y,
          p.x,
          p.w,
          or_else(p.start, p.x),
          or_else(p.bias, p.x),
          or_else(p.low_rank.s, p.x),
          or_else(p.low_rank.u, p.x),
          u32(p.rows()),
          u32(p.columns()),
          u32(p.steps()),
          u32(p.rank()),
          p.alpha,
          p.low_rank.scale};
}

void append(std::vector<Argument>& arguments, std::initializer_list<Argument> more) {
  arguments.insert(arguments.end(), more);
}

Launch launch_of(const Product& p) {
  Cost cost = gemm_cost(p.rows(), p.w);
  cost.flops += 2.0 * static_cast<double>(p.rows() * p.columns() * p.rank());
  return {{}, {}, cost, p.backward ? "gemm/backward" : "gemm/forward"};
}

void record_tiles(Batch& batch, const Product& p, bool bf16) {
  Context& context = batch.context();
  const GemmTiles tiles =
      bf16 ? gemm_bf16_tiles(context.device(), context.variant()) : gemm_tiles(context.device());
  const GemmShares shares = share_gemm(p.size(), tiles, context.device());
  Defines defines;
  set_weight_type(defines, p.w);
  tiles.define(defines);
  if (bf16 && context.variant() == Variant::amx) defines.set("AMX");
  Launch launch = launch_of(p);
  launch.kernel = context.kernel(bf16 ? kBf16Tiles : kTiles, "gemm_tiles", defines);
  launch.grid = single_item_groups(shares.column_groups, shares.row_groups);
  std::vector<Argument> arguments = arguments_of(p);
  append(arguments, {std::uint32_t{p.backward}, std::uint32_t{!p.start.empty()},
                     std::uint32_t{!p.bias.empty()}, shares.block_steps, shares.panels_per_group,
                     shares.tiles_per_group});
  if (!bf16) append(arguments, {std::uint32_t{rows_share_cache_sets(p.steps())}});
  append(arguments, {LocalMemory{tiles.scratch_bytes()}});
  batch.record(std::move(launch), std::move(arguments));
}

void record_few_rows(Batch& batch, const Product& p) {
  Context& context = batch.context();
  const RowShare share = share_rows(divide_up(u32(p.columns()), kRowsAtOnce), context.device());
  Defines defines;
  set_weight_type(defines, p.w);
  defines.set("ROWS_AT_ONCE", kRowsAtOnce);
  Launch launch = launch_of(p);
  launch.kernel = context.kernel("gemm_few_rows_cpu.cl", "gemm_few_rows", defines);
  launch.grid = single_item_groups(share.groups);
  std::vector<Argument> arguments = arguments_of(p);
  append(arguments, {std::uint32_t{!p.start.empty()}, std::uint32_t{!p.bias.empty()},
                     share.rows_per_group * kRowsAtOnce});
  batch.record(std::move(launch), std::move(arguments));
}

// cl/gemm_few_rows_int8_cpu.cl: the scratch of one row of x.
std::size_t rounded_row_bytes(const Product& p) { return u32(p.steps()) * std::size_t{9} / 4; }

void record_int8(Batch& batch, const Product& p) {
  Context& context = batch.context();
  const RowShare share = share_rows(u32(p.columns()) / kRowsAtOnce, context.device());
  const std::size_t fit = context.device().local_memory_bytes / rounded_row_bytes(p);
  const std::uint32_t held = std::min(u32(p.rows()), static_cast<std::uint32_t>(fit));
  Defines defines;
  set_weight_type(defines, p.w);
  defines.set("ROWS_AT_ONCE", kRowsAtOnce);
  Launch launch = launch_of(p);
  launch.kernel = context.kernel(kInt8, "gemm_few_rows_int8", defines);
  launch.grid = single_item_groups(share.groups);
  std::vector<Argument> arguments = arguments_of(p);
  append(arguments, {std::uint32_t{!p.start.empty()}, std::uint32_t{!p.bias.empty()},
                     share.rows_per_group, held, LocalMemory{held * rounded_row_bytes(p)}});
  batch.record(std::move(launch), std::move(arguments));
}

void record_portable(Batch& batch, const Product& p) {
  Context& context = batch.context();
  const bool one_row = !p.backward && p.rows() <= kOneRowKernelUpTo;
  Defines defines;
  set_weight_type(defines, p.w);
  defines.set("TILE", kTile).set("SIDE", kSide).set("STEPS", kSteps).set("ROW_ITEMS", kRowItems);
  Launch launch = launch_of(p);
  launch.kernel = context.kernel("gemm.cl", one_row ? "gemm_one_row" : "gemm", defines);
  std::vector<Argument> arguments = arguments_of(p);
  if (!one_row) append(arguments, {std::uint32_t{p.backward}});
  append(arguments, {std::uint32_t{!p.start.empty()}, std::uint32_t{!p.bias.empty()}});
  const std::size_t rows = u32(p.rows());
  const std::size_t columns = u32(p.columns());
  launch.grid = one_row ? Grid{{columns * kRowItems, rows, 1}, {kRowItems, 1, 1}}
                        : Grid{{round_up(columns, kTile) / kTile * kSide,
                                round_up(rows, kTile) / kTile * kSide, 1},
                               {kSide, kSide, 1}};
  batch.record(std::move(launch), std::move(arguments));
}

GemmExtras test_extras(SelfTest& test, std::int64_t rows, std::int64_t columns) {
  return {.bias = test.input({columns}),
          .residual = test.input({rows, columns}),
          .low_rank = {test.input({rows, 3}), test.input({3, columns}), 0.5F},
          .scale = 0.5F};
}

// Several tiles each way, cut at their ends.
void test_tiles(SelfTest& test, const Tensor& like) {
  constexpr std::int64_t kRows = 2 * GemmTiles::kAmxRows + 1;
  const std::int64_t columns =
      2 * GemmTiles::kColumns + (like.layout() == Layout::strips ? kRowsAtOnce : 3);
  const Tensor w = test.weights({columns, 256}, like.type(), like.layout());
  record_gemm(test.batch(), test.output({kRows, columns}), test.input({kRows, 256}), w,
              test_extras(test, kRows, columns));
  record_gemm_backward(test.batch(), test.output({kRows, 256}), test.input({kRows, columns}), w,
                       Accumulate::no);
}

// One row, and some that are taken together.
void test_few_rows(SelfTest& test, const Tensor& like) {
  const std::int64_t columns =
      2 * kRowsAtOnce + (like.layout() == Layout::strips ? kRowsAtOnce : 5);
  constexpr std::int64_t kRows = 5;
  record_gemm(test.batch(), test.output({kRows, columns}), test.input({kRows, 256}),
              test.weights({columns, 256}, like.type(), like.layout()),
              test_extras(test, kRows, columns));
}

bool trusts_tiles(Context& context, const Tensor& w, bool bf16) {
  const std::string arithmetic = bf16 ? fmt::format("_{}", name_of(context.variant())) : "";
  const std::string name = fmt::format("gemm{}_tiles {}", arithmetic, weight_name(w));
  return trusted(context, {bf16 ? kBf16Tiles : kTiles, name, bf16 ? kBf16Tolerance : kF32Tolerance},
                 [&](SelfTest& test) { test_tiles(test, w); });
}

bool trusts_few_rows(Context& context, const Tensor& w) {
  return trusted(context, {"gemm_few_rows_cpu.cl", fmt::format("gemm_few_rows {}", weight_name(w))},
                 [&](SelfTest& test) { test_few_rows(test, w); });
}

bool trusts_int8(Context& context, const Tensor& w) {
  const std::string name = fmt::format("gemm_few_rows_int8 {}", weight_name(w));
  return trusted(context, {kInt8, name, kInt8Tolerance},
                 [&](SelfTest& test) { test_few_rows(test, w); });
}

bool multiplies_integers(const Context& context, const Product& p) {
  return p.w.layout() == Layout::strips && has_matrix_unit(context.variant()) &&
         context.device().int8_dots && rounded_row_bytes(p) <= context.device().local_memory_bytes;
}

void record_product(Batch& batch, const Product& p) {
  Context& context = batch.context();
  const bool bf16 = rounds_to_bf16(context.variant(), p.size(), p.backward);
  if (bf16 && trusts_tiles(context, p.w, true)) return record_tiles(batch, p, true);
  const bool few = !p.backward && p.rows() < GemmTiles::kFewRows;
  if (few && multiplies_integers(context, p) && trusts_int8(context, p.w)) {
    return record_int8(batch, p);
  }
  if (few && trusts_few_rows(context, p.w)) return record_few_rows(batch, p);
  if (!few && trusts_tiles(context, p.w, false)) return record_tiles(batch, p, false);
  record_portable(batch, p);
}

void require_rows(std::string_view op, std::string_view name, const Tensor& t) {
  require(!t.empty() && t.shape().rank() == 2 && t.elements() > 0 && t.type() == DType::f32,
          "{}: {} must be an f32 matrix, got {}", op, name, t.empty() ? "nothing" : t.text());
}

void require_low_rank(std::string_view op, const LowRankTerm& term, const Tensor& y) {
  if (term.s.empty()) {
    require(term.u.empty(), "{}: low_rank.u is given without low_rank.s; give both or none", op);
    return;
  }
  require_rows(op, "low_rank.s", term.s);
  const std::int64_t rank = term.s.shape()[1];
  require_tensor(op, "low_rank.s", term.s, {y.shape()[0], rank});
  require_tensor(op, "low_rank.u", term.u, {rank, y.shape()[1]});
  require(!overlap(y, term.s), "{}: the output must not alias low_rank.s", op);
}

}  // namespace

void record_gemm(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& w,
                 const GemmExtras& extras) {
  require_weight("gemm", "w", w);
  require_rows("gemm", "x", x);
  require_tensor("gemm", "x", x, {x.shape()[0], w.shape()[1]});
  require_tensor("gemm", "y", y, {x.shape()[0], w.shape()[0]});
  if (!extras.bias.empty()) require_tensor("gemm", "bias", extras.bias, {w.shape()[0]});
  if (!extras.residual.empty()) require_tensor("gemm", "residual", extras.residual, y.shape());
  require_low_rank("gemm", extras.low_rank, y);
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
  require_tensor("gemm backward", "dy", dy, {dy.shape()[0], w.shape()[0]});
  require_tensor("gemm backward", "dx", dx, {dy.shape()[0], w.shape()[1]});
  require_low_rank("gemm backward", low_rank, dx);
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
