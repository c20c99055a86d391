#include "ops/gemm/gemm_groups.hpp"

#include <algorithm>

#include "ops/tensor_overlap.hpp"

namespace clora {
namespace {

constexpr std::int64_t kAlignedColumns = 8;

bool have_the_same_row_groups(const GemmProduct& p, const GemmProduct& first) {
  const Tensor &a = p.low_rank().row_groups, &b = first.low_rank().row_groups;
  if (a.empty() || b.empty()) return a.empty() == b.empty();
  return overlap(a, b) && a.offset_bytes() == b.offset_bytes();
}

bool have_alike_terms(const GemmProduct& p, const GemmProduct& first) {
  if (p.rank() != first.rank() || !have_the_same_row_groups(p, first)) return false;
  const LowRankTerm &a = p.epilogue.low_rank, &b = first.epilogue.low_rank;
  if (p.has_row_groups() && a.u.shape()[0] != b.u.shape()[0]) return false;
  return p.rank() == 0 || (a.s.type() == b.s.type() && a.scale == b.scale &&
                           a.a_scale == b.a_scale && a.a.empty() == b.a.empty());
}

}  // namespace

bool can_be_grouped(std::span<const GemmProduct> problems) {
  if (problems.size() < 2 || problems.size() > kMaxGemmGroup) return false;
  const GemmProduct& first = problems.front();
  return std::ranges::all_of(problems, [&](const GemmProduct& p) {
    const bool alike = p.y.type() == first.y.type() &&
                       p.epilogue.bias.empty() == first.epilogue.bias.empty() &&
                       p.epilogue.column_scale.empty() == first.epilogue.column_scale.empty() &&
                       p.epilogue.scale == 1 && p.columns() % kAlignedColumns == 0;
    if (!alike || !have_alike_terms(p, first)) return false;
    return p.backward ? !p.has_shrink() : p.epilogue.residual.empty();
  });
}

std::vector<GemmProduct> shrinks_of(std::span<const GemmProduct> problems, AdapterCopies copies) {
  std::vector<GemmProduct> shrinks;
  for (const GemmProduct& p : problems) {
    const LowRankTerm& term = p.low_rank();
    const bool has_copy = copies == AdapterCopies::read && !term.a_bf16.empty();
    shrinks.push_back({.y = term.s,
                       .x = p.x,
                       .w = has_copy ? term.a_bf16 : term.a,
                       .epilogue = {.scale = term.a_scale}});
  }
  return shrinks;
}

std::vector<GemmProduct> without_shrinks(std::span<const GemmProduct> problems) {
  std::vector<GemmProduct> all(problems.begin(), problems.end());
  for (GemmProduct& p : all) p.epilogue.low_rank.a = {};
  return all;
}

}  // namespace clora
