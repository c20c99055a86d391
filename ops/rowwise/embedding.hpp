// embedding: y [T, D] = factor * rows ids [T] of table [V, D]. The table is frozen, in any storage
// type.
#pragma once

#include "clora/ops/quant/weight.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

// Overwrites y. REQUIRES: 0 <= ids[t] < V (any other id gives a row of zeros, never a bad read).
void record_embedding(Batch& batch, const Tensor& y, const Tensor& ids, const Weight& table,
                      float factor = 1);

}  // namespace clora
