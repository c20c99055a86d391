// What kernels reach tensors by that are not their arguments: a table in device memory, which one
// argument leads to (cl/tensor_map.cl). An argument that is memory costs a launch 0.3 to 0.5 us on
// NVIDIA's driver.
//
// Tables hold device addresses: they are written once, before the batch's first submit. Whoever
// records a launch with one names what it leads to in Launch::uses.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ops/bf16_rows.hpp"

namespace clora {

// A matrix, and how many of its rows one copy takes, 64 columns wide.
struct MappedMatrix {
  Bf16Rows matrix;
  std::uint32_t box_rows = 0;
};

// In this order, without gaps: the maps by which Hopper's TMA reads and writes bf16 matrices,
// 128 bytes each; addresses, 8 bytes each, 0 of an empty tensor; words of 4 bytes that are zero
// before the first launch and left zero by each.
struct TensorTable {
  std::vector<MappedMatrix> matrices = {};
  std::vector<Tensor> tensors = {};
  std::uint32_t counters = 0;

  // All that is in it, as Launch::uses wants it: first the tensors, an op's results among them.
  std::vector<Tensor> uses() const;
};

// label: of the launches that write the table, "gemm/table".
Tensor prepare_tensor_table(Batch& batch, const TensorTable& table, std::string_view label);

// A table of maps alone.
Tensor prepare_tensor_maps(Batch& batch, std::span<const MappedMatrix> matrices,
                           std::string_view label);

// Every word of 4 bytes = 0, by a kernel: of a temporary, wherever it lies.
void record_zero_words(Batch& batch, const Tensor& words, std::string_view label);

}  // namespace clora
