#include "ops/gemm/gemm_wgmma_row_shrink.hpp"

#include <algorithm>

#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// Of a group at once.
constexpr std::uint32_t kRows = 8, kRanks = 16;
// With more rows, tiles leave no compute units idle.
constexpr std::int64_t kFewRows = 128;
// Elements of 16 bytes.
constexpr std::int64_t kVec = 8;
// More groups do not end sooner. If tiles take all units, they give up so many, of a device with
// few units at most a quarter.
constexpr std::uint32_t kMaxGroups = 32, kMinGroups = 8, kUnitsOfShare = 4;
// Steps of a slice: a group reads its 8 rows of x and 16 of a in about the time that others take
// for their tiles.
constexpr std::uint32_t kSliceSteps = 1280, kMaxSlices = 8;

std::int64_t adapters_of(const GemmProduct& p) { return p.low_rank().u.shape()[0]; }

std::uint32_t rank_blocks(const GemmProduct& p) { return divide_up(u32(p.rank()), kRanks); }

bool has_aligned_rows(const Tensor& t) {
  return t.type() == DType::bf16 && t.shape()[t.shape().rank() - 1] % kVec == 0 &&
         t.offset_bytes() % bytes_of(DType::bf16, static_cast<std::size_t>(kVec)) == 0;
}

}  // namespace

bool is_row_shrink(const GemmProduct& p) { return p.has_row_groups() && p.has_shrink(); }

bool can_shrink_rows(const GemmProduct& p) {
  const LowRankTerm& term = p.low_rank();
  return p.rows() <= kFewRows && has_aligned_rows(p.x) && !term.a_bf16.empty() &&
         has_aligned_rows(term.a_bf16) && multiplied_ranks(p) % kVec == 0 &&
         term.s.type() != DType::f16;
}

std::int64_t multiplied_ranks(const GemmProduct& p) {
  return is_row_shrink(p) ? adapters_of(p) * p.rank() : p.rank();
}

Tensor multiplied_u(const GemmProduct& p, const Tensor& u) {
  if (u.empty() || !is_row_shrink(p)) return u;
  return u.reshape({multiplied_ranks(p), p.columns()});
}

RowShrinkPlan row_shrink_plan(std::span<const GemmProduct> problems) {
  const GemmProduct& p = problems.front();
  if (!is_row_shrink(p)) return {};
  const std::uint32_t slices = std::min(kMaxSlices, divide_up(u32(p.k()), kSliceSteps));
  const std::uint32_t chunks = u32(problems.size()) * divide_up(u32(p.rows()), kRows);
  return {std::min(kMaxGroups, chunks * rank_blocks(p) * slices), slices};
}

std::uint32_t least_groups(const RowShrinkPlan& plan, std::uint32_t units) {
  return std::min({plan.groups, kMinGroups, std::max(1U, units / kUnitsOfShare)});
}

std::uint32_t row_shrink_blocks(std::span<const GemmProduct> problems, const RowShrinkPlan& plan) {
  if (plan.slices == 1) return 0;
  const GemmProduct& p = problems.front();
  return u32(problems.size()) * u32(p.rows()) * rank_blocks(p);
}

Tensor row_shrink_parts(Batch& batch, std::span<const GemmProduct> problems,
                        const RowShrinkPlan& plan) {
  const std::uint32_t blocks = row_shrink_blocks(problems, plan);
  if (blocks == 0) return {};
  return batch.temporary({blocks, plan.slices, kRows * kRanks}, DType::f32, "row shrink parts");
}

std::vector<Tensor> wide_s(Batch& batch, std::span<const GemmProduct> problems) {
  std::vector<Tensor> all;
  for (const GemmProduct& p : problems) {
    if (!is_row_shrink(p)) continue;
    all.push_back(batch.temporary({p.rows(), multiplied_ranks(p)}, DType::bf16, "wide s"));
  }
  return all;
}

}  // namespace clora
