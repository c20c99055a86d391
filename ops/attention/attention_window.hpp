// attention_window: the ranges of keys of a sliding window, for AttentionInputs::first.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// y[t] = max(first[t], last[t] - window + 1): row t attends to at most `window` rows, including
// itself. y, first and last are i32 [T]. Overwrites y; y may be first. REQUIRES: window >= 1; first
// and last are not negative.
void record_attention_window(Batch& batch, const Tensor& y, const Tensor& first, const Tensor& last,
                             std::int64_t window);

}  // namespace clora
