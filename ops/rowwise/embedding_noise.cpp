#include "clora/ops/rowwise/embedding_noise.hpp"

#include <algorithm>

#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kGroup = 64;
constexpr std::int64_t kElements = 16;  // of an item
constexpr std::size_t kMaxRows = 1024;  // of the grid; each item then repeats

}  // namespace

Cost embedding_noise_cost(const Shape& x) {
  const auto elements = static_cast<double>(x.elements());
  return {3 * elements, 8 * elements};
}

void record_embedding_noise(Batch& batch, const Tensor& x, const Tensor& scale,
                            const Tensor& seed_and_step) {
  constexpr std::string_view op = "embedding_noise";
  require(!x.empty() && x.shape().rank() == 2 && x.elements() > 0,
          "{}: x must be f32 [T, D] with at least one element, got {}", op, x.text());
  require_tensor(op, "x", x, x.shape());
  const std::int64_t rows = x.shape()[0], width = x.shape()[1];
  require_tensor(op, "scale", scale, {rows});
  require_tensor(op, "seed_and_step", seed_and_step, {2}, DType::u32);
  const auto items = static_cast<std::size_t>(divide_up(width, kElements));
  const Grid grid{{round_up(items, kGroup), std::min(static_cast<std::size_t>(rows), kMaxRows), 1},
                  {kGroup, 1, 1}};
  batch.launch({batch.context().kernel("embedding_noise.cl", "embedding_noise"), grid,
                embedding_noise_cost(x.shape()), "embedding_noise"},
               x, scale, seed_and_step, u32(rows), u32(width));
}

}  // namespace clora
