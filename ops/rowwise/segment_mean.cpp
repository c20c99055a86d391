#include "clora/ops/rowwise/segment_mean.hpp"

#include <algorithm>

#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::string_view kFile = "segment_mean.cl";
constexpr std::size_t kGroup = 64;
constexpr std::int64_t kMaxRowGroups = 1 << 15;  // GPUs support 65535 in the second dimension

// The sizes of rows [T, D] and segments [B, D].
void require_sizes(const Tensor& rows, const Tensor& means, const Segments& segments) {
  for (const Tensor* t : {&rows, &means}) {
    require(!t->empty() && t->shape().rank() == 2 && t->elements() > 0,
            "segment_mean: rows must be f32 [T, D] and means f32 [B, D], got {}",
            t->empty() ? "nothing" : t->text());
    require_tensor("segment_mean", "rows and means", *t, {t->shape()[0], rows.shape()[1]});
  }
  const Shape count{means.shape()[0]};
  require_tensor("segment_mean", "begin", segments.begin, count, DType::i32);
  require_tensor("segment_mean", "end", segments.end, count, DType::i32);
  require(count[0] <= kMaxRowGroups, "segment_mean: at most {} segments are supported, got {}",
          kMaxRowGroups, count[0]);
}

Grid grid_of(std::int64_t columns, std::int64_t rows) {
  return {{static_cast<std::size_t>(round_up(columns, kGroup)),
           static_cast<std::size_t>(std::min(rows, kMaxRowGroups)), 1},
          {kGroup, 1, 1}};
}

}  // namespace

Cost segment_mean_cost(const Shape& x, std::int64_t segments) {
  const auto rows = static_cast<double>(x.elements());
  return {rows, 4 * (rows + static_cast<double>(segments * x[1]))};
}

void record_segment_mean(Batch& batch, const Tensor& y, const Tensor& x, const Segments& segments) {
  require_sizes(x, y, segments);
  const std::int64_t B = y.shape()[0], D = x.shape()[1];
  batch.launch({batch.context().kernel(kFile, "segment_mean", {}), grid_of(D, B),
                segment_mean_cost(x.shape(), B), "segment_mean/forward"},
               y, x, segments.begin, segments.end, u32(D));
}

void record_segment_mean_backward(Batch& batch, const Tensor& dx, const Tensor& dy,
                                  const Segments& segments, const Tensor& segment) {
  require_sizes(dx, dy, segments);
  const std::int64_t T = dx.shape()[0], B = dy.shape()[0], D = dx.shape()[1];
  require_tensor("segment_mean", "segment", segment, {T}, DType::i32);
  batch.launch({batch.context().kernel(kFile, "segment_mean_backward", {}), grid_of(D, T),
                segment_mean_cost(dx.shape(), B), "segment_mean/backward"},
               dx, dy, segments.begin, segments.end, segment, u32(T), u32(D));
}

}  // namespace clora
