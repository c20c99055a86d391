// Shared by tests of row-wise ops (cl/rowwise/row_vecs.clh): the types of their tensors, and rows
// for every vector size.
#pragma once

#include <cstdint>
#include <vector>

#include "clora/runtime/memory/dtype.hpp"
#include "tests/support/op_test.hpp"

namespace clora::test {

// Types of two tensors of a forward.
struct TwoTypes {
  DType x, y;
};
inline constexpr TwoTypes kTwoTypes[]{{DType::f32, DType::f32},  {DType::f32, DType::bf16},
                                      {DType::bf16, DType::f32}, {DType::bf16, DType::bf16},
                                      {DType::f16, DType::f16},  {DType::f32, DType::f16}};

// Types of three tensors of a backward: each of them alone is bf16, then all are, or f16.
struct ThreeTypes {
  DType a, b, c;
};
inline constexpr ThreeTypes kThreeTypes[]{
    {DType::bf16, DType::f32, DType::f32}, {DType::f32, DType::bf16, DType::f32},
    {DType::f32, DType::f32, DType::bf16}, {DType::bf16, DType::bf16, DType::bf16},
    {DType::f16, DType::f32, DType::bf16}, {DType::f32, DType::f16, DType::f32},
    {DType::bf16, DType::f32, DType::f16}, {DType::f16, DType::f16, DType::f16}};

// REQUIRES: Case(rows, width) has a shape. Widths that are multiples of 8, of 4, and of neither;
// rows of one item, rows that fit registers, and rows that are too long for them.
template <class Case>
std::vector<Case> vec_size_cases() {
  std::vector<Case> all;
  for (const std::int64_t width : {3, 8, 28, 896, 1031}) all.emplace_back(5, width);
  all.emplace_back(2, 2052);
  all.emplace_back(1, 16392);
  std::erase_if(all, [](const Case& c) { return !affords(c.shape.elements()); });
  return all;
}

}  // namespace clora::test
