// cl/gemm/gemm_wgmma_row_shrink.clh: the shrinks of products whose rows have several adapters, in
// the products' own launch.
//
// Their groups take compute units that few tiles leave idle, and the others multiply x and w
// meanwhile: s costs no launch and hardly any time. The products read the ranks of all adapters of
// the stack (wide), zero but for those of the row's own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/gemm/gemm_kernels.hpp"

namespace clora {

// Counters by which the groups of a launch meet.
inline constexpr std::uint32_t kRowShrinkCounters = 2;

// Whether the term of p is computed so, if the kernel multiplies p: it has row groups and a shrink.
bool is_row_shrink(const GemmProduct& p);

// Whether the kernel can: x and a are bf16 in rows of whole 16 bytes, as are those of wide s, and
// rows are as few as in decoding. REQUIRES: is_row_shrink().
bool can_shrink_rows(const GemmProduct& p);

// The ranks of s u: of all adapters for a row shrink.
std::int64_t multiplied_ranks(const GemmProduct& p);
// The u that is multiplied with them: the whole stack, [multiplied_ranks, columns].
Tensor multiplied_u(const GemmProduct& p, const Tensor& u);

// How a launch shrinks: its groups, and the slices of K that they take, of which one of 16 ranks is
// a few microseconds.
struct RowShrinkPlan {
  std::uint32_t groups = 0;  // 0: the problems have no row shrinks
  std::uint32_t slices = 1;
};
// As many groups as are useful.
RowShrinkPlan row_shrink_plan(std::span<const GemmProduct> problems);
// As many as must have a compute unit.
std::uint32_t least_groups(const RowShrinkPlan& plan, std::uint32_t units);

// Blocks of 16 ranks of a row, for each of which slices meet; 0 for one slice.
std::uint32_t row_shrink_blocks(std::span<const GemmProduct> problems, const RowShrinkPlan& plan);
// The sums of all slices, [blocks, slices, 128]; empty for one slice.
Tensor row_shrink_parts(Batch& batch, std::span<const GemmProduct> problems,
                        const RowShrinkPlan& plan);

// A temporary for the wide s of each problem, [M, multiplied_ranks] of bf16; none without row
// shrinks.
std::vector<Tensor> wide_s(Batch& batch, std::span<const GemmProduct> problems);

}  // namespace clora
