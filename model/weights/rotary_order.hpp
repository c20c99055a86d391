// Reorders rows of q and k to Hugging Face's order.
//
// GGUF files of Llama and Mistral store the rows of q and k so that rotary pairs are adjacent;
// Hugging Face stores them half a head apart. Complete rows are moved, so any storage type works.
// Models on the device, adapters and fused files all use Hugging Face's order, so an adapter fits
// PEFT regardless of the file format of its base model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "clora/model/weights/weights.hpp"

namespace clora {

// Whether the weight is q's or k's (or their bias) and the file stores it in interleaved order.
bool needs_reordering(const WeightView& view);

// out = rows [first_row, ...) of `view` in half-split order, as many as fit. REQUIRES:
// needs_reordering(); out holds an integral number of existing rows.
void copy_in_half_split_order(std::span<std::byte> out, const WeightView& view,
                              std::int64_t first_row);

// Returns all rows in half-split order.
std::vector<std::byte> in_half_split_order(const WeightView& view);

}  // namespace clora
