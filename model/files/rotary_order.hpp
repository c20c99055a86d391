// Rows of q and k in Hugging Face's order.
//
// GGUF files of Llama and Mistral store the rows of q and k so that rotary pairs are neighbours;
// Hugging Face has them half a head apart. Whole rows are moved, so any storage type works. Models
// on the device, adapters and fused files all use Hugging Face's order: an adapter fits PEFT
// whatever file its base model came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/files/weights.hpp"

namespace clora {

// True iff the weight is q's or k's (or their bias) and the file has it in the interleaved order.
bool needs_reordering(const ModelConfig& config, std::string_view name);

// out = rows [first_row, ...) of `view` in the half-split order, as many as fit.
// REQUIRES: needs_reordering; out a whole number of rows that exist.
void copy_in_half_split_order(std::span<std::byte> out, const WeightView& view,
                              std::int64_t first_row, std::int64_t head_dim);

// All of them.
std::vector<std::byte> in_half_split_order(const WeightView& view, std::int64_t head_dim);

}  // namespace clora
