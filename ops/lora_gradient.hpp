// The gradients of adapters' matrices: what one is, the kernels that make it, and how they wait for
// one another to share a launch.
#pragma once

#include <span>
#include <vector>

#include "runtime/batch.hpp"

namespace clora {

inline constexpr std::string_view kLoraWgmma = "lora_linear_wgmma.cl";
inline constexpr std::size_t kMaxGradientProblems = 16;  // of a launch

// out [R, K] += scale * s [T, R]^T x [T, K]
struct LoraGradientProduct {
  Tensor out;  // f32
  Tensor s;    // f32 or bf16
  Tensor x;    // f32 or bf16
  float scale = 1;
  // Where given, of the same read of x: shrunk [T, R] = shrink_scale * x b [R, K]^T.
  // REQUIRES: gradients_share_launches().
  Tensor shrunk = {};  // bf16
  Tensor b = {};       // f32 or bf16
  float shrink_scale = 1;
};

// By the kernel that serves the device best.
void record_gradient(Batch& batch, const LoraGradientProduct& p);
// Whether there is one for many gradients of this rank at once, which reads x once for both of its
// results.
bool gradients_share_launches(Context& context, std::int64_t rank);

// Gradients on their way to launches. Where launches are shared, one that nobody waits for stays
// here until others must be recorded or flush(); elsewhere each is recorded at once.
// REQUIRES: no two with one `out` before a flush().
class DeferredGradients {
 public:
  // Recorded now or later: until then x and s must stay as they are.
  void add(Batch& batch, const LoraGradientProduct& p);
  // Those that stand here and these, now.
  void record(Batch& batch, std::span<const LoraGradientProduct> problems);
  void flush(Batch& batch) { record(batch, {}); }

 private:
  std::vector<LoraGradientProduct> waiting_;
};

// cl/lora_linear_wgmma.cl, one launch. f32 operands are cast to bf16 first. REQUIRES: a device
// with wgmma; at most kMaxGradientProblems, of equal rows and ranks; of those that shrink, and of
// those that do not, equal scales; no two of one `out`.
void record_gradients_wgmma(Batch& batch, std::span<const LoraGradientProduct> problems);
// The ranks that a work-group of that kernel takes at once, where there are so many: the kernel is
// another one for each number.
std::uint32_t gradient_block_ranks(std::int64_t rank);

// How the rows of x are cut: a unit of work is so many times 64 of them, and 256 columns.
struct LoraChunks {
  std::uint32_t chunks = 1;
  std::uint32_t chunk_boxes = 1;
};
// As many units of work as the GPU has compute units, or few less.
LoraChunks lora_chunks(std::uint32_t rows, std::uint32_t strips, std::uint32_t rank_blocks,
                       std::uint32_t units);

}  // namespace clora
