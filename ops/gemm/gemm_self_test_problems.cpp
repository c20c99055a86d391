#include "ops/gemm/gemm_self_test_problems.hpp"

#include <array>

#include "ops/gemm/gemm_wgmma_row_shrink.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

using Problems = std::span<const GemmProduct>;

// Sizes of the first problem, larger than the widest tile; rows of the output are a multiple of 16
// bytes, or not (ragged).
constexpr std::int64_t kRows = 150, kColumns = 328, kRaggedColumns = 325, kSteps = 200;
// Widths of the further problems: columns forward, steps backward.
constexpr std::array<std::int64_t, 3> kNarrow{0, 40, 72};
// Programs differ in the number of 16 ranks that they multiply at once, up to 64.
constexpr std::int64_t kStepRanks = 16, kMaxRanks = 64, kManyRanks = 70, kAbsentRanks = 9;
// Of each of two adapters, whose shrink is in the product: together 16 at most, or several blocks.
constexpr std::int64_t kFewShrunkRanks = 4, kManyShrunkRanks = 36;

std::int64_t rank_like(const GemmProduct& p) {
  if (p.rank() == 0) return 0;
  return p.rank() <= kMaxRanks ? round_up(p.rank(), kStepRanks) - kAbsentRanks : kManyRanks;
}

// Two adapters whose rows share a tile, and rows without one.
LowRankTerm term_of_groups(SelfTest& test, const GemmProduct& small, std::int64_t rank) {
  const std::array groups{RowGroup{0, 37, 1, 5}, RowGroup{40, kRows, 0}};
  return {.s = test.input({kRows, rank}, 1, DType::bf16),
          .u = test.input({2, rank, small.columns()}),
          .scale = 0.5F,
          .row_groups = test.input({kRows, kRowGroupWords}, row_group_table(kRows, groups))};
}

// The same with their shrink. All kernels read the bf16 copy of a.
LowRankTerm row_shrink_like(SelfTest& test, const GemmProduct& p, const GemmProduct& small) {
  const std::int64_t rank = multiplied_ranks(p) <= kStepRanks ? kFewShrunkRanks : kManyShrunkRanks;
  LowRankTerm term = term_of_groups(test, small, rank);
  const Shape a{2, rank, small.k()};
  term.s = test.changed(test.input({kRows, rank}, 1, p.low_rank().s.type()));
  term.a = test.input(a);
  term.a_scale = 0.5F;
  term.a_bf16 = test.input(a, 1, DType::bf16);
  return term;
}

// s is an input, or an output if the shrink is fused.
LowRankTerm term_like(SelfTest& test, const GemmProduct& p, const GemmProduct& small) {
  const std::int64_t rank = rank_like(p);
  if (rank == 0) return {};
  if (is_row_shrink(p)) return row_shrink_like(test, p, small);
  if (p.has_row_groups()) return term_of_groups(test, small, rank);
  const Tensor u = test.input({rank, small.columns()});
  if (!p.has_shrink()) return {test.input({kRows, rank}, 1, DType::bf16), u, 0.5F};
  return {test.output({kRows, rank}, p.epilogue.low_rank.s.type()), u, 0.5F,
          test.input({rank, small.k()}), 0.5F};
}

GemmProduct small_like(SelfTest& test, const GemmProduct& p, const Tensor& y, const Tensor& x) {
  const std::int64_t columns = y.shape()[1], steps = x.shape()[1];
  const Shape w = p.backward ? Shape{steps, columns} : Shape{columns, steps};
  GemmProduct small{
      .y = y, .x = x, .w = test.input(w, 1, DType::bf16), .epilogue = {}, .backward = p.backward};
  small.epilogue.low_rank = term_like(test, p, small);
  if (!p.epilogue.bias.empty()) small.epilogue.bias = test.input({columns});
  if (!p.epilogue.column_scale.empty()) small.epilogue.column_scale = test.input({columns});
  if (p.epilogue.residual.empty()) return small;
  small.epilogue.residual = p.backward ? y : test.input(y.shape(), 1, y.type());
  return small;
}

}  // namespace

std::vector<GemmProduct> small_problems_like(SelfTest& test, Problems problems) {
  const GemmProduct& first = problems.front();
  const std::int64_t columns = first.columns() % 8 == 0 ? kColumns : kRaggedColumns;
  const auto output = [&](std::int64_t n) {
    const bool adds = first.backward && !first.epilogue.residual.empty();
    return adds ? test.changed(test.input({kRows, n}, 1, first.y.type()))
                : test.output({kRows, n}, first.y.type());
  };
  const auto input = [&](std::int64_t k) { return test.input({kRows, k}, 1, DType::bf16); };
  const Tensor x = input(kSteps), y = output(columns);
  std::vector<GemmProduct> small{small_like(test, first, y, x)};
  for (std::size_t i = 1; i < problems.size(); ++i) {
    const std::int64_t n = kNarrow.at(i);
    small.push_back(first.backward ? small_like(test, problems[i], y, input(n))
                                   : small_like(test, problems[i], output(n), x));
  }
  return small;
}

void record_by_public_ops(Batch& batch, std::span<const GemmProduct> problems) {
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const GemmProduct& p = problems[i];
    if (p.backward) {
      const bool adds = i > 0 || !p.epilogue.residual.empty();
      record_gemm_backward(batch, p.y, p.x, p.w, adds ? Accumulate::yes : Accumulate::no,
                           p.epilogue.low_rank);
    } else {
      record_gemm(batch, p.y, p.x, p.w, p.epilogue);
    }
  }
}

}  // namespace clora
