// The models whose costs `clc tune --costs` searches for (ops/tuned/costs.hpp), and the problems on
// which it measures them. Threads: those of the Context.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "clora/ops/gemm/gemm.hpp"
#include "ops/tuned/tuned_table.hpp"

namespace clora {

// One product y [rows, columns] of k terms, forward with an adapter of `rank` whose shrink the
// product may compute, or backward, which has none.
struct CostProblem {
  std::int64_t rows = 0, columns = 0, k = 0;
  std::int64_t rank = 0;
  DType weight = DType::bf16;
  bool backward = false;
};

// A problem on arrays of one value.
class PreparedProblem {
 public:
  PreparedProblem(Context& context, const CostProblem& problem);
  void record(Batch& batch) const;

 private:
  CostProblem problem_;
  Tensor y_, x_, w_;
  Epilogue epilogue_;
};

struct CostModel {
  std::string_view name;
  const char* (*unavailable)(
      const Context&);  // why the Context's plans have no such costs, or null
  NamedCosts (*costs)(const Context&);
  void (*set)(const Context&, const NamedCosts&);
  std::vector<CostProblem> problems;
};
std::vector<CostModel> cost_models();

}  // namespace clora
