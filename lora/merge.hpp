// Merging an adapter's product into a weight matrix on the host.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "clora/lora/adapter.hpp"

namespace clora {

// A module's matrices on the host, read back once, for its weight w [N, K]. b is transposed, as on
// the device. Of token embeddings, whose table w is [V, D], N is V, and a and b are exchanged: the
// product in files is that of the transpose.
struct HostLora {
  std::vector<float> a;   // [R, K]
  std::vector<float> bt;  // [R, N]
  std::int64_t rank = 0, inputs = 0, outputs = 0;
  double scale = 1;
  std::vector<float> magnitude = {};  // [N] of DoRA, or empty
};

// Waits for the device. REQUIRES: the adapter has a module at path.
HostLora read_lora(const Adapter& adapter, std::string_view path);

// w [N, K] += scale * b a, each element summed in double and rounded once; with magnitudes,
// w = magnitude / |w + scale b a| (w + scale b a), norms by rows and zero for rows of zeros.
// REQUIRES: w.size() == outputs * inputs.
void merge_into(std::span<float> w, const HostLora& lora);

}  // namespace clora
