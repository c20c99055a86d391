// bf16 rows: matrices in the layout that matrix units read (cl/gemm/bf16_rows.cl).
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// A bf16 matrix [R, K] with a row stride of `stride` elements, a multiple of 8.
struct Bf16Rows {
  Tensor data;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t stride = 0;
};

// bf16(scale * w): w itself if it has this layout already, or its copy (Tensor::bf16_copy), if
// scale is 1; otherwise a new temporary of the batch.
Bf16Rows record_bf16_rows(Batch& batch, const Tensor& w, float scale = 1);

// Of w [R, K] in this layout: [R, K rounded up to a multiple of 8].
Shape shape_in_bf16_rows(const Tensor& w);
// Whether a plain matrix of this type and row length has this layout already.
bool are_bf16_rows(DType type, std::int64_t columns);

// Writes the same into `out` [R, stride] of bf16. REQUIRES: stride >= K; stride a multiple of 8 if
// R > 1.
void record_bf16_rows_into(Batch& batch, const Tensor& out, const Tensor& w, float scale,
                           std::string_view label);

}  // namespace clora
