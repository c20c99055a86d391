// adamw_q8: adamw (ops/adamw.hpp) with both moments in 8 bits, in blocks of 256 values of the flat
// order that have a scale each (Dettmers et al., 2022, arXiv:2110.02861). A moment takes 1 byte and
// 1/64 of one for its scale, in place of 4.
//
// Stored are m and the root of v, each as scale * value(code), where scale is the largest magnitude
// of the block and value(code) is one of 255 numbers from -1 to 1, or 256 from 0 to 1
// (cl/moment_codes.clh). A step computes in f32: it reads the moments, updates them and the
// parameters by adamw's formula, and only then rounds the moments to the nearest codes. A root that
// is not 0 never gets the code 0, since a step would divide m by epsilon.
#pragma once

#include "clora/ops/optimizers/adamw.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

// Values with one scale. The last block may have fewer; a block may extend over several matrices.
inline constexpr std::int64_t kMomentBlock = 256;

// The number of blocks of n values.
constexpr std::int64_t moment_blocks(std::int64_t n) {
  return n / kMomentBlock + (n % kMomentBlock > 0 ? 1 : 0);
}

// Codes and scales of 0 are moments of 0, as before the first step.
struct QuantisedMoment {
  Tensor codes;   // u8 [n]: bit 7 is the sign of m; a root has none
  Tensor scales;  // f32 [moment_blocks(n)]
};

struct AdamwQ8Tensors {
  Tensor parameters;      // [n], updated
  QuantisedMoment first;  // m, updated
  QuantisedMoment root;   // the root of v, updated
  Tensor gradients;       // [n]
  Tensor settings;        // f32 [8]: UpdateSettings
  ParameterRates rates = {};
};

// Updates the tensors and writes the norm as record_adamw() does. Deterministic. A moment that is
// not finite makes the scale of its block infinite. REQUIRES: no two tensors overlap.
void record_adamw_q8(Batch& batch, const AdamwQ8Tensors& tensors, const Tensor& grad_norm);

Cost adamw_q8_cost(std::int64_t parameters);

}  // namespace clora
