// quantise: rows of activations in 8 bits, as they are kept for a backward (q8_0 of GGUF): blocks
// of 32 neighbours of a row, each an f16 scale d and 32 signed integers,
//   d = max |x| / 127        q = round(x / d)
// record_dequantise() (ops/quant/quant.hpp) is the inverse, with an error of at most d / 2.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

inline constexpr std::int64_t kElementsOfQ8Block = 32;

// Overwrites y [T, N] of q8_0. x [T, N] is f32, bf16 or f16, N a multiple of 32. A block that holds
// a value that is not finite, or one beyond 127 times the largest f16, is all NaN.
void record_quantise(Batch& batch, const Tensor& y, const Tensor& x);

Cost quantise_cost(const Shape& x, DType x_type);

}  // namespace clora
