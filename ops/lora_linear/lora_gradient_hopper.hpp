// cl/lora_linear/lora_linear_wgmma.cl: adapter gradients on Hopper's tensor cores (wgmma).
#pragma once

#include <cstdint>
#include <span>

#include "clora/ops/lora_linear/lora_gradient.hpp"

namespace clora {

inline constexpr std::string_view kLoraWgmma = "lora_linear_wgmma.cl";
inline constexpr std::size_t kMaxGradientProblems = 16;  // per launch

// The outcome for the program of this rank.
bool lora_gradient_wgmma_passed(Context& context, const LoraGradientProduct& p);

// One launch, which also computes `shrunk`. Casts f32 operands to bf16 first. REQUIRES: a device
// with wgmma; at most kMaxGradientProblems, which lora_gradients_can_join() allows; distinct `out`.
void record_gradients_wgmma(Batch& batch, std::span<const LoraGradientProduct> problems);
// Whether `p` has the rows and the rank of `problems`, and the scales of those of them that have a
// shrink, or none, like p.
bool lora_gradients_can_join(std::span<const LoraGradientProduct> problems,
                             const LoraGradientProduct& p);

// The ranks that a work-group of that kernel computes at once. Each number is a separate program.
std::uint32_t gradient_block_ranks(std::int64_t rank);

// The split of the rows of x: a unit of work is chunk_boxes * 64 rows by 256 columns.
struct LoraChunks {
  std::uint32_t chunks = 1;
  std::uint32_t chunk_boxes = 1;
};
// As many units of work as the GPU has compute units, or slightly fewer.
LoraChunks lora_chunks(std::uint32_t rows, std::uint32_t strips, std::uint32_t rank_blocks,
                       std::uint32_t units);

}  // namespace clora
