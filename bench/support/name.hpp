// The name of a bench: op/form/type/shape[/rN][/word]..., see docs/benchmarks.md.
#pragma once

#include <string>
#include <vector>

#include "clora/runtime/memory/shape.hpp"

namespace clora::bench {

struct Name {
  std::string op;              // "gemm", "gemm_backward"
  std::string form = "fused";  // fused, unfused, library
  std::string type = "f32";    // storage type: of the weights if there are any
  Shape shape;
  std::int64_t rank = 0;                // 0: no adapter
  std::vector<std::string> words = {};  // other attributes: warm, bf16, clblast

  Name with(std::string word) const;
  std::string text() const;
};

}  // namespace clora::bench
