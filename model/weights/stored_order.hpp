// Brings weights from the order of their file to Hugging Face's.
//
// GGUF files of Llama and Mistral store the rows of q and k so that rotary pairs are adjacent;
// Hugging Face stores them half a head apart. Those of Qwen3.5 store value heads by their number
// within a key head (ValueHeads), in rows or in columns. Complete rows, or complete heads within a
// row, are moved, so any storage type works whose blocks do not span heads. Models on the device,
// adapters and fused files all use Hugging Face's order, so an adapter fits PEFT regardless of the
// file format of its base model. The same functions arrange layers that other programs quantised
// (quantised_layers.hpp), a few rows at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "clora/model/weights/weights.hpp"

namespace clora {

// Whether the file stores the weight in another order, or not in blocks of its type.
bool needs_reordering(const WeightView& view);

// out = rows [first_row, ...) of `view` in Hugging Face's order, as many as fit. REQUIRES:
// needs_reordering(); out holds an integral number of existing rows.
void copy_in_hugging_face_order(std::span<std::byte> out, const WeightView& view,
                                std::int64_t first_row);

// Returns all rows in Hugging Face's order.
std::vector<std::byte> in_hugging_face_order(const WeightView& view);

// Returns the view's blocks with the rows in the file's order: its bytes, or `storage`, filled, if
// the blocks are arranged when they are read.
std::span<const std::byte> stored_blocks(const WeightView& view, std::vector<std::byte>& storage);

// Returns all values as f32 as a Hugging Face file would have them: dequantised, in its order and
// with its offsets.
std::vector<float> hugging_face_values(const WeightView& view);

// The inverse: values in Hugging Face's order as the file of `view` would have them.
std::vector<float> stored_values(const WeightView& view, std::span<const float> values);

// Where a file stores row `row` of a matrix in Hugging Face's order: of heads of
// `interleaved_head_dim` rows with adjacent rotary pairs, if it is not 0, or of value heads.
std::int64_t stored_row(std::int64_t interleaved_head_dim, const std::optional<ValueHeads>& heads,
                        std::int64_t row);

// Where a GGUF file stores element `index` of a dimension with value heads.
std::int64_t stored_index(const ValueHeads& heads, std::int64_t index);

}  // namespace clora
