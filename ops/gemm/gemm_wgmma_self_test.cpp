#include "ops/gemm/gemm_wgmma_self_test.hpp"

#include <algorithm>
#include <array>

#include "ops/gemm/gemm_hopper.hpp"
#include "ops/gemm/gemm_mma.hpp"

namespace clora {
namespace {

using Problems = std::span<const GemmProduct>;

// Sizes of the first problem, larger than the widest tile; rows of the output are a multiple of 16
// bytes, or not (ragged).
constexpr std::int64_t kRows = 150, kColumns = 328, kRaggedColumns = 325, kSteps = 200;
// Widths of the further problems: columns forward, steps backward.
constexpr std::array<std::int64_t, 3> kNarrow{0, 40, 72};
// Ranks of one K step of an MMA, of one box, and of more than one box.
constexpr std::int64_t kFewRanks = 7, kBoxRanks = 40, kManyRanks = 70;

std::int64_t rank_like(const GemmProduct& p) {
  if (p.rank() == 0) return 0;
  return p.rank() <= 16 ? kFewRanks : p.rank() <= 64 ? kBoxRanks : kManyRanks;
}

// s is an input, or an output if the shrink is fused.
LowRankTerm term_like(SelfTest& test, const GemmProduct& p, const GemmProduct& small) {
  const std::int64_t rank = rank_like(p);
  if (rank == 0) return {};
  const Tensor u = test.input({rank, small.columns()});
  if (!p.has_shrink()) return {test.input({kRows, rank}, 1, DType::bf16), u, 0.5F};
  return {test.output({kRows, rank}, p.low_rank.s.type()), u, 0.5F, test.input({rank, small.k()}),
          0.5F};
}

GemmProduct small_like(SelfTest& test, const GemmProduct& p, const Tensor& y, const Tensor& x) {
  const std::int64_t columns = y.shape()[1], steps = x.shape()[1];
  const Shape w = p.backward ? Shape{steps, columns} : Shape{columns, steps};
  GemmProduct small{.y = y,
                    .x = x,
                    .w = test.input(w, 1, DType::bf16),
                    .addend = {},
                    .bias = {},
                    .low_rank = {},
                    .backward = p.backward};
  small.low_rank = term_like(test, p, small);
  if (!p.bias.empty()) small.bias = test.input({columns});
  if (p.addend.empty()) return small;
  small.addend = p.backward ? y : test.input(y.shape(), 1, y.type());
  return small;
}

// Records the public ops, which use the portable kernels while the reference is computed.
void record_reference(Batch& batch, Problems problems) {
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const GemmProduct& p = problems[i];
    if (p.backward) {
      const bool adds = i > 0 || !p.addend.empty();
      record_gemm_backward(batch, p.y, p.x, p.w, adds ? Accumulate::yes : Accumulate::no,
                           p.low_rank);
    } else {
      record_gemm(batch, p.y, p.x, p.w,
                  {.bias = p.bias, .residual = p.addend, .low_rank = p.low_rank});
    }
  }
}

// cl/gemm/gemm_mma.cl has one program with branches for all extras: the self-test covers all of
// them.
GemmProduct with_all_extras(GemmProduct p) {
  p.addend = p.y;
  if (!p.backward) p.bias = p.x;
  p.low_rank = {.s = p.y, .u = p.y};
  return p;
}

}  // namespace

std::vector<GemmProduct> small_problems_like(SelfTest& test, Problems problems) {
  const GemmProduct& first = problems.front();
  const std::int64_t columns = first.columns() % 8 == 0 ? kColumns : kRaggedColumns;
  const auto output = [&](std::int64_t n) {
    const bool adds = first.backward && !first.addend.empty();
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

bool gemm_wgmma_passed(Context& context, Problems problems) {
  const std::uint32_t units = std::max(1U, context.device().compute_units);
  const WgmmaProgram program = gemm_wgmma_program(units, problems);
  const FastKernel kernel{kGemmWgmma, "gemm_wgmma", kBf16Tolerance, program.options};
  return passed_self_test(context, kernel, [&](SelfTest& test) {
    const std::vector<GemmProduct> small = small_problems_like(test, problems);
    if (makes_reference(context)) return record_reference(test.batch(), small);
    record_gemm_wgmma_by(test.batch(), small, program);
  });
}

bool gemm_mma_passed(Context& context, const GemmProduct& p) {
  const std::string options = gemm_mma_options(p);
  const GemmProduct all = with_all_extras(p);
  return passed_self_test(
      context, {kGemmMma, "gemm_mma", kBf16Tolerance, options}, [&](SelfTest& test) {
        const std::vector<GemmProduct> small = small_problems_like(test, {&all, 1});
        if (makes_reference(context)) return record_reference(test.batch(), small);
        record_gemm_mma(test.batch(), small.front());
      });
}

}  // namespace clora
