// bf16 rows: matrices as matrix units read them (cl/bf16_rows.cl).
#pragma once

#include "runtime/batch.hpp"

namespace clora {

// A matrix [R, K] of bf16, its rows `stride` elements apart, a multiple of 8.
struct Bf16Rows {
  Tensor data;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t stride = 0;
};

// bf16(scale * w): w itself where it lies so, else a temporary of the batch that is made here.
Bf16Rows record_bf16_rows(Batch& batch, const Tensor& w, float scale = 1);

// The same into `out` [R, stride] of bf16. REQUIRES: stride at least K and, where R is not 1, a
// multiple of 8.
void record_bf16_rows_into(Batch& batch, const Tensor& out, const Tensor& w, float scale,
                           std::string_view label);

}  // namespace clora
