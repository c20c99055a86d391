// The kernels of grouped_gemm: the description of one product, and the launch of each.
#pragma once

#include "clora/ops/experts/grouped_gemm.hpp"
#include "ops/dispatch/matrix_unit_defines.hpp"
#include "ops/gemm/gemm_matrix_tiles.hpp"

namespace clora {

struct GroupedProduct {
  Tensor y;  // [S, N]
  Tensor x;  // [., K]
  ExpertMatrices matrices;
  const ExpertPlan& plan;
  ExpertRows rows = ExpertRows::of_slots;
  ExpertLowRank low_rank = {};
  float scale = 1;
  bool backward = false;
  bool accumulates = false;
  bool is_low_rank_alone = false;  // y += scale s u; for the portable kernel

  const Tensor& w() const { return matrices.w.whole(); }
  std::int64_t columns() const { return y.shape()[1]; }  // N
  std::int64_t k() const { return x.shape()[1]; }        // K
  std::int64_t rank() const { return low_rank.s.empty() ? 0 : low_rank.s.shape()[1]; }
  bool is_f32() const { return x.type() == DType::f32 && y.type() == DType::f32; }
  Cost cost() const;
};

// The files of the kernels.
inline constexpr std::string_view kGroupedPortable = "grouped_gemm.cl";
inline constexpr std::string_view kGroupedCpu = "grouped_gemm_cpu.cl";
inline constexpr std::string_view kGroupedBf16Cpu = "grouped_gemm_bf16_cpu.cl";
inline constexpr std::string_view kGroupedSkinny = "grouped_gemm_skinny.cl";
inline constexpr std::string_view kGroupedSkinnyCpu = "grouped_gemm_skinny_cpu.cl";
inline constexpr std::string_view kGroupedMatrix = "grouped_gemm_matrix.cl";

void record_grouped_portable(Batch& batch, const GroupedProduct& p);
// REQUIRES: is_f32().
void record_grouped_cpu(Batch& batch, const GroupedProduct& p);
bool grouped_cpu_passed(Context& context, const GroupedProduct& p);
// The same with operands rounded to bf16. REQUIRES: bf16_dots.
void record_grouped_bf16_cpu(Batch& batch, const GroupedProduct& p);
bool grouped_bf16_cpu_passed(Context& context, const GroupedProduct& p);

// Forward products of plans with few entries for each expert.
const char* grouped_few_rows_refusal(const Context& context, const GroupedProduct& p);
// REQUIRES: no refusal.
void record_grouped_skinny(Batch& batch, const GroupedProduct& p);
void record_grouped_skinny_ptx(Batch& batch, const GroupedProduct& p);
bool grouped_skinny_ptx_passed(Context& context, const GroupedProduct& p);
// REQUIRES: is_f32() as well.
void record_grouped_skinny_cpu(Batch& batch, const GroupedProduct& p);
bool grouped_skinny_cpu_passed(Context& context, const GroupedProduct& p);
// The same in integers. The refusal is for what few rows and CPUs do not say.
const char* grouped_skinny_int8_refusal(const Context& context, const GroupedProduct& p);
void record_grouped_skinny_int8(Batch& batch, const GroupedProduct& p);
bool grouped_skinny_int8_passed(Context& context, const GroupedProduct& p);

// REQUIRES: no refusal. The low-rank term is a launch of the portable kernel.
void record_grouped_matrix(Batch& batch, const GroupedProduct& p);
// The same with any tile whose rows divide those of the plan's tiles.
void record_grouped_matrix_with(Batch& batch, const GroupedProduct& p, MatrixUnitChoice unit,
                                const GemmMatrixTile& tile);
const char* grouped_matrix_refusal(const Context& context, const GroupedProduct& p);
bool grouped_matrix_passed(Context& context, const GroupedProduct& p);

}  // namespace clora
