// The name of a bench: op/form/type/shape[/rN][/word]..., as docs/benchmarks.md tells.
#pragma once

#include <string>
#include <vector>

#include "runtime/shape.hpp"

namespace clora::bench {

struct Name {
  std::string op;              // "gemm", "gemm_backward"
  std::string form = "fused";  // fused, composed (the same of unfused ops), library
  std::string type = "f32";    // of storage: of the weights where there are any
  Shape shape;
  std::int64_t rank = 0;                // 0: there is none
  std::vector<std::string> words = {};  // what else tells rows apart: warm, bf16, clblast

  Name with(std::string word) const;
  std::string text() const;
};

}  // namespace clora::bench
