// Tensor tables: kernels access tensors through a table in device memory, which is a single
// argument (cl/hopper/tensor_map.cl). Each memory argument costs a launch 0.3 to 0.5 us on NVIDIA's
// driver.
//
// Tables hold device addresses: they are written once, before the batch's first submit. The caller
// that records a launch with a table lists the tensors of the table in Launch::uses.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "clora/ops/gemm/bf16_rows.hpp"

namespace clora {

// A matrix, and the rows of one TMA box, which is 64 columns wide.
struct MappedMatrix {
  Bf16Rows matrix;
  std::uint32_t box_rows = 0;
};

// In this order, without gaps: tensor maps with which Hopper's TMA reads and writes bf16 matrices,
// 128 bytes each; addresses, 8 bytes each, 0 for an empty tensor; 4-byte counters that are zero
// before the first launch, and that each launch leaves at zero.
struct TensorTable {
  std::vector<MappedMatrix> matrices = {};
  std::vector<Tensor> tensors = {};
  std::uint32_t counters = 0;

  // All of its tensors, for Launch::uses: first `tensors`, which include an op's results.
  std::vector<Tensor> uses() const;
};

// label: of the launches that write the table, such as "gemm/table".
Tensor prepare_tensor_table(Batch& batch, const TensorTable& table, std::string_view label);

// A table of maps only.
Tensor prepare_tensor_maps(Batch& batch, std::span<const MappedMatrix> matrices,
                           std::string_view label);

// Sets every 4-byte word to 0 with a kernel, so that it works for temporaries at any offset.
void record_zero_words(Batch& batch, const Tensor& words, std::string_view label);

}  // namespace clora
