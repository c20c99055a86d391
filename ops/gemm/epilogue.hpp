// epilogue: what a product adds to x w^T before it stores y, in one struct for all products.
//
//   y [M, N] = column_scale [N] * (scale * x w^T + low_rank.scale * s [M, R] u [R, N])
//              + residual [M, N] + bias [N]
//
// in this order, in f32: the residual and the bias are not scaled, and a y that is not f32 is
// rounded once, at the end. A kernel may distribute column_scale over the steps of K, which changes
// the rounding of sums only.
//
// column_scale is that of DoRA (Liu et al., 2024): with column_scale = magnitude / |w + scale b a|,
// norms by rows of w, y is DoRA's layer: its bias is not scaled either. With dropout, PEFT scales
// x w^T by 1 and drop(x) w^T by (column_scale - 1): that is a second product, without the bias.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "clora/runtime/memory/tensor.hpp"

namespace clora {

// scale * s u, added inside a product. If s is empty, nothing is added. If a is given, the op first
// computes s from the product's own input: s = a_scale * input a^T, overwritten; in the same launch
// if the kernel can, with a cast to bf16 if w is.
struct LowRankTerm {
  Tensor s;  // [M, R], f32, bf16 or f16
  Tensor u;  // [R, columns of the output] f32
  float scale = 1;
  Tensor a = {};  // [R, columns of the input] f32
  float a_scale = 1;
  // bf16 copies of u and a, or empty: then a product that rounds its operands casts them itself.
  Tensor u_bf16 = {};
  Tensor a_bf16 = {};
  // Rows of several adapters in one product (forward only): u is a stack [adapters, R, N] of them,
  // a [adapters, R, K], the bf16 copies likewise, and row m is multiplied with those of its
  // adapter. u32 [M, 4] on the device, read in each replay: row_group_table(). It also has the
  // ranks of the row's adapter, R at most, and a factor of its term. `scale` is that of all rows.
  // s, where it is computed, is multiplied with the row's factor, besides a_scale, and is zero past
  // its ranks; a given s may have any finite values there. Rows without an adapter get no term, and
  // their s is undefined. The more rows of an adapter are adjacent, the faster the product; what a
  // row gets does not depend on the adapters of other rows. REQUIRES: the adapters of the table are
  // in the stack, and all elements of the stack are finite, also past the ranks of an adapter.
  Tensor row_groups = {};
};

struct Epilogue {
  Tensor bias = {};      // [N] f32, or empty
  Tensor residual = {};  // [M, N] of y's type, or empty; may be y itself (y += ...)
  LowRankTerm low_rank = {};
  float scale = 1;           // of x w^T
  Tensor column_scale = {};  // [N] f32, or empty: 1
};

// All ranks of a stack.
inline constexpr std::uint32_t kAllRanks = 0xffffffff;
// The rows begin .. end - 1 of a product, which use one adapter of a stack.
struct RowGroup {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::uint32_t adapter = 0;
  std::uint32_t rank = kAllRanks;  // of the adapter; those of the stack past it are not used
  float scale = 1;                 // of the term
};
// Rows that are in no group have this adapter in the table: none.
inline constexpr std::uint32_t kNoAdapter = 0xffffffff;

// Words of a row in the table.
inline constexpr std::int64_t kRowGroupWords = 4;
// The contents of LowRankTerm::row_groups for `rows` rows: for each row its adapter, the row after
// the last one of its group, the rank, and the bits of the scale. REQUIRES: groups in ascending
// order, without overlap.
std::vector<std::uint32_t> row_group_table(std::int64_t rows, std::span<const RowGroup> groups);

}  // namespace clora
