// The gradients of an adapter's matrices: what one is, and the kernels that make it.
#pragma once

#include <span>

#include "runtime/batch.hpp"

namespace clora {

inline constexpr std::string_view kLoraWgmma = "lora_linear_wgmma.cl";
inline constexpr std::size_t kMostLoraMembers = 3;

// out [R, K] += scale * s [T, R]^T x [T, K]
struct LoraGradientProduct {
  Tensor out;  // f32
  Tensor s;    // f32 or bf16
  Tensor x;    // f32 or bf16
  float scale = 1;
  // Where given, of the same read of x: shrunk [T, R] = shrink_scale * x b [R, K]^T.
  // REQUIRES: shrinks_beside_gradients().
  Tensor shrunk = {};  // bf16
  Tensor b = {};       // f32 or bf16
  float shrink_scale = 1;
};

// By the kernel that serves the device best.
void record_gradient(Batch& batch, const LoraGradientProduct& p);
// Each of them; up to three in one launch where shrinks_beside_gradients(). REQUIRES: equal rows,
// ranks and scales, and all shrink or none.
void record_gradients(Batch& batch, std::span<const LoraGradientProduct> members);
// Whether there is one that reads x once for both.
bool shrinks_beside_gradients(Context& context);

// cl/lora_linear_wgmma.cl. f32 operands are rounded to bf16 first. REQUIRES: a device with wgmma,
// at most three members.
void record_gradients_wgmma(Batch& batch, std::span<const LoraGradientProduct> members);

// How the rows of x are cut: a work-group's chunk is so many times 64 of them, and 512 columns.
struct LoraChunks {
  std::uint32_t chunks = 1;
  std::uint32_t chunk_boxes = 1;
};
// As many groups as the card has units, or few less.
LoraChunks lora_chunks(std::uint32_t rows, std::uint32_t strips, std::uint32_t rank_blocks,
                       std::uint32_t units);

}  // namespace clora
