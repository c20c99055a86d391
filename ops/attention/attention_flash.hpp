// cl/attention/attention_flash.cl and cl/attention/attention_backward_flash.cl: attention in tiles
// of queries and keys, in plain OpenCL C.
#pragma once

#include <optional>

#include "ops/attention/attention_spec.hpp"

namespace clora {

// The tiling of cl/attention/attention_tile.clh: a work-group owns `rows` rows and loops over
// blocks of `block` rows of the other operand, of which `steps` are staged at a time.
struct AttentionTile {
  std::int64_t rows = 0, block = 0, steps = 0, item_rows = 0, items_across = 0;

  std::int64_t items() const { return rows / item_rows * items_across; }
  std::size_t local_bytes(std::int64_t head_dim) const;
};

inline constexpr std::string_view kAttentionFlash = "attention_flash.cl";
inline constexpr std::string_view kAttentionBackwardFlash = "attention_backward_flash.cl";

// The tiling for f32 tensors of these sizes; empty if T is small, a head is not aligned to four
// elements, or no tile fits the device.
std::optional<AttentionTile> attention_tile(const AttentionSpec& spec, const AttentionInputs& in);

const char* attention_flash_refusal(const Context& context, const AttentionForward& forward);
void record_attention_flash(Batch& batch, const AttentionForward& forward);

const char* attention_backward_flash_refusal(const Context& context,
                                             const AttentionBackward& backward);
// Returns the tensors written: if H > G, its dk and dv hold one part per query head.
AttentionGradients record_attention_backward_flash(Batch& batch, const AttentionBackward& backward);

}  // namespace clora
