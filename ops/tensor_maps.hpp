// Tensor maps: the descriptors by which Hopper's bulk copies read and write bf16 matrices
// (cl/tensor_map.cl).
#pragma once

#include <span>
#include <string_view>

#include "ops/bf16_rows.hpp"

namespace clora {

// A matrix, and how many of its rows one copy takes, 64 columns wide.
struct MappedMatrix {
  Bf16Rows matrix;
  std::uint32_t box_rows = 0;
};

// The matrices' maps in a row, 128 bytes each. They hold device addresses: they are written once,
// before the batch's first submit. label: of the launches, "gemm/tensor map".
Tensor prepare_tensor_maps(Batch& batch, std::span<const MappedMatrix> matrices,
                           std::string_view label);

}  // namespace clora
