// The sizes of an adapter's updates, to see which layers a training run changes.
//
// Computed on the host, from one read of the parameters. Pure; waits for the device.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "clora/lora/adapter.hpp"

namespace clora {

// The update of the layers of one kind in one block.
struct UpdateNorm {
  std::int64_t block = -1;  // the first number in the path; -1: the path has none
  std::string target;       // the last part of the path: "q_proj"
  double norm = 0;          // Frobenius norm of scale * B A; of DoRA, without its magnitudes
};

// || b a ||_F of a [rank, K] and bt [rank, N], which is b transposed. It is the root of the sum of
// (b^T b) o (a a^T) over [rank, rank], so b a [N, K] is not formed. Cost: rank^2 (K + N) flops.
double product_norm(std::span<const float> a, std::span<const float> bt, std::int64_t rank);

// In the order of the modules. Several modules with one block and target, such as those of experts,
// are one entry: the root of their sum of squares.
std::vector<UpdateNorm> update_norms(const Adapter& adapter);

}  // namespace clora
