// The gradients of adapters' matrices: the product of one gradient, the kernels that compute it,
// and the deferral of gradients so that several share a launch.
#pragma once

#include <span>
#include <vector>

#include "clora/runtime/commands/batch.hpp"

namespace clora {

inline constexpr std::string_view kLoraWgmma = "lora_linear_wgmma.cl";
inline constexpr std::size_t kMaxGradientProblems = 16;  // per launch

// out [R, K] += scale * s [T, R]^T x [T, K]
struct LoraGradientProduct {
  Tensor out;  // f32
  Tensor s;    // f32 or bf16
  Tensor x;    // f32 or bf16
  float scale = 1;
  // If given, computed with the same read of x: shrunk [T, R] = shrink_scale * x b [R, K]^T.
  // REQUIRES: gradients_share_launches().
  Tensor shrunk = {};  // bf16
  Tensor b = {};       // f32 or bf16
  float shrink_scale = 1;
};

// Records the gradient with the best kernel for the device.
void record_gradient(Batch& batch, const LoraGradientProduct& p);
// Whether a kernel computes many gradients of this rank in one launch, and reads x once for both of
// its results.
bool gradients_share_launches(Context& context, std::int64_t rank);

// Gradients that are not recorded yet. If launches are shared, a gradient whose result is not
// needed yet stays here until others are recorded or flush() is called; otherwise it is recorded at
// once. REQUIRES: no two with the same `out` before a flush().
class DeferredGradients {
 public:
  // Records p now or later; x and s must not change until then.
  void add(Batch& batch, const LoraGradientProduct& p);
  // Records the deferred gradients and these.
  void record(Batch& batch, std::span<const LoraGradientProduct> problems);
  void flush(Batch& batch) { record(batch, {}); }

 private:
  std::vector<LoraGradientProduct> waiting_;
};

// cl/lora_linear/lora_linear_wgmma.cl, one launch. Casts f32 operands to bf16 first. REQUIRES: a
// device with wgmma; at most kMaxGradientProblems, of equal rows and ranks; equal scales among
// those with a shrink, and among those without; distinct `out`.
void record_gradients_wgmma(Batch& batch, std::span<const LoraGradientProduct> problems);
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
