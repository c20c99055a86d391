#include "ops/gemm/gemm_groups.hpp"

#include <algorithm>

namespace clora {
namespace {

constexpr std::int64_t kAlignedColumns = 8;

bool have_alike_terms(const GemmProduct& p, const GemmProduct& first) {
  if (p.rank() != first.rank()) return false;
  const LowRankTerm &a = p.low_rank, &b = first.low_rank;
  return p.rank() == 0 || (a.s.type() == b.s.type() && a.scale == b.scale &&
                           a.a_scale == b.a_scale && a.a.empty() == b.a.empty());
}

}  // namespace

bool can_be_grouped(std::span<const GemmProduct> problems) {
  if (problems.size() < 2 || problems.size() > kMaxGemmGroup) return false;
  const GemmProduct& first = problems.front();
  return std::ranges::all_of(problems, [&](const GemmProduct& p) {
    const bool alike = p.y.type() == first.y.type() && p.bias.empty() == first.bias.empty() &&
                       p.alpha == 1 && p.columns() % kAlignedColumns == 0;
    if (!alike || !have_alike_terms(p, first)) return false;
    return p.backward ? !p.has_shrink() : p.addend.empty();
  });
}

}  // namespace clora
