// Which products one launch can compute, for kernels that support groups.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "ops/gemm/gemm_kernels.hpp"

namespace clora {

inline constexpr std::size_t kMaxGemmGroup = 3;

// Two or three forward products of one x, or backward products of one sum, which are alike except
// for their widths; rows of y are a multiple of 16 bytes in bf16. Whether their shrinks are fused
// is the kernel's choice.
bool can_be_grouped(std::span<const GemmProduct> problems);

// The products that compute the s of products with a shrink, and these with s as an input.
enum class AdapterCopies { ignored, read };  // the bf16 copies of the adapter's matrices
std::vector<GemmProduct> shrinks_of(std::span<const GemmProduct> problems, AdapterCopies copies);
std::vector<GemmProduct> without_shrinks(std::span<const GemmProduct> problems);

// Arguments for EACH of cl/gemm/gemm_groups.clh: of(problem), and that of the first problem in
// place of absent ones, which kernels do not read.
template <typename Problem, typename Of>
void append_each(std::vector<Argument>& list, std::span<const Problem> problems, Of of) {
  const std::size_t slots = problems.size() == 1 ? 1 : std::max<std::size_t>(3, problems.size());
  for (std::size_t i = 0; i < slots; ++i) {
    list.emplace_back(of(problems[i < problems.size() ? i : 0]));
  }
}

}  // namespace clora
