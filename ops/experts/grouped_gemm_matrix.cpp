// cl/experts/grouped_gemm_matrix.cl
#include <algorithm>
#include <limits>

#include "clora/ops/gemm/bf16_rows.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/experts/grouped_gemm_kernels.hpp"
#include "ops/experts/routing_self_test.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

using uint = std::uint32_t;  // OpenCL C's
#include "cl/experts/grouped_matrix_problem.clh"

constexpr std::uint32_t kGroupM = 8;  // tile rows of a rasterisation group
constexpr std::int64_t kLeastTile = 64;
constexpr std::int64_t kAlignedColumns = 8;

// Hopper's GPUs have local memory for longer stages.
GemmMatrixTile tile_of(const Context& context, const ExpertPlan& plan) {
  const std::uint32_t steps = context.device().matrix_unit == MatrixUnit::wgmma ? 64 : 32;
  const bool is_high = plan.tile % 128 == 0;
  return {.rows = is_high ? 128U : 64U,
          .columns = 128,
          .sub_rows = is_high ? 64U : 32U,
          .sub_columns = 64,
          .steps = steps,
          .stages = 3};
}

Defines defines_of(const GroupedProduct& p, MatrixUnitChoice unit, const GemmMatrixTile& tile) {
  Defines defines;
  define_matrix_unit(defines, unit);
  defines.set("TILE_ROWS", tile.rows).set("TILE_COLUMNS", tile.columns);
  defines.set("SUB_ROWS", tile.sub_rows).set("SUB_COLUMNS", tile.sub_columns);
  defines.set("STEPS", tile.steps).set("STAGES", tile.stages);
  if (p.backward) defines.set("TRANSPOSED");
  if (p.rows == ExpertRows::of_entries) defines.set("GATHER");
  if (p.accumulates) defines.set("ADDEND");
  if (p.y.type() == DType::bf16) defines.set("Y_BF16");
  if (p.columns() % kAlignedColumns == 0) defines.set("ALIGNED");
  return defines;
}

// A plan with tiles of as many rows, and the same program: its columns and types are alike.
void test_matrix(SelfTest& test, const GroupedProduct& p) {
  constexpr std::int64_t kExperts = 2, kInputs = 200;
  const std::int64_t rows = p.plan.tile == 128 ? 401 : 131;
  const std::int64_t columns = p.columns() % kAlignedColumns == 0 ? 264 : 261;
  Batch& batch = test.batch();
  const Routing routing = self_test_routing(test, {rows, kExperts, 1});
  const std::int64_t slots = routing.plan.slot_count();
  const std::int64_t x_rows = p.rows == ExpertRows::of_entries ? rows : slots;
  const Shape each = p.backward ? Shape{kInputs, columns} : Shape{columns, kInputs};
  const Tensor y = test.input({slots, columns}, 1, p.y.type());
  const GroupedProduct product{
      .y = test.changed(y),
      .x = test.input({x_rows, kInputs}, 1, DType::bf16),
      .matrices = {test.weights({kExperts * each[0], each[1]}, DType::bf16)},
      .plan = routing.plan,
      .rows = p.rows,
      .backward = p.backward,
      .accumulates = p.accumulates};
  if (makes_reference(batch.context())) return record_grouped_portable(batch, product);
  record_grouped_matrix(batch, product);
}

}  // namespace

void record_grouped_matrix_with(Batch& batch, const GroupedProduct& p, MatrixUnitChoice unit,
                                const GemmMatrixTile& tile) {
  const Bf16Rows x = record_bf16_rows(batch, p.x), w = record_bf16_rows(batch, p.w());
  const std::uint32_t slots = u32(p.plan.slot_count()), columns = u32(p.columns());
  const std::size_t tiles = std::size_t{slots / tile.rows} * divide_up(columns, tile.columns);
  const std::size_t items = std::size_t{tile.sub_groups()} * matrix_unit_lanes(unit);
  Launch launch{
      batch.context().kernel(kGroupedMatrix, "grouped_gemm_matrix", defines_of(p, unit, tile)),
      groups_of(items, tiles), p.cost(),
      p.backward ? "grouped_gemm/backward" : "grouped_gemm/forward"};
  const GroupedMatrixProblem problem{.S = slots,
                                     .N = columns,
                                     .K = u32(p.k()),
                                     .x_stride = x.stride,
                                     .w_stride = w.stride,
                                     .experts_of_row = u32(p.plan.experts_of_row()),
                                     .groups_of_tile = u32(p.plan.tile / tile.rows),
                                     .group_m = kGroupM,
                                     .scale = p.scale};
  batch.launch(std::move(launch), p.y, x.data, w.data, p.plan.entries, p.plan.tile_experts,
               by_value(problem));
  if (p.rank() == 0) return;
  GroupedProduct term = p;
  term.accumulates = true;
  term.is_low_rank_alone = true;
  record_grouped_portable(batch, term);
}

void record_grouped_matrix(Batch& batch, const GroupedProduct& p) {
  const Context& context = batch.context();
  record_grouped_matrix_with(batch, p, matrix_unit_of(context), tile_of(context, p.plan));
}

const char* grouped_matrix_refusal(const Context& context, const GroupedProduct& p) {
  if (context.device().matrix_unit == MatrixUnit::xmx) return "its sums exceed XMX's registers";
  if (!p.matrices.offsets.empty()) return "it reads weights one after the other";
  if (p.plan.tile < kLeastTile) return "it is for many rows of each expert";
  if (p.y.type() == DType::f16 || p.x.type() == DType::f16) return "it is for f32 and bf16";
  if (p.w().layout() != Layout::plain) return "it reads plain weights";
  const bool is_far = p.x.elements() > std::numeric_limits<std::uint32_t>::max() / 2;
  return is_far ? "x exceeds 2^31 elements" : nullptr;
}

bool grouped_matrix_passed(Context& context, const GroupedProduct& p) {
  const std::string options =
      defines_of(p, matrix_unit_of(context), tile_of(context, p.plan)).text();
  return passed_self_test(context, {kGroupedMatrix, "grouped_gemm_matrix", kBf16Tolerance, options},
                          [&](SelfTest& test) { test_matrix(test, p); });
}

}  // namespace clora
