// rope/LAYOUT/f32/T x H x E: queries of SmolLM2-135M.
#include "ops/rope.hpp"

#include "bench/support/replayed_op.hpp"
#include "tests/reference/rope_reference.hpp"

namespace clora {
namespace {

using bench::Operand;

void rotate(benchmark::State& state, const Shape& shape, RopeLayout layout) {
  const Operand x(shape, 1);
  const Operand table({shape[0], shape[2] / 2, 2}, 2);  // any numbers: the work is the same
  std::vector<std::int32_t> positions;
  for (std::int32_t t = 0; t < shape[0]; ++t) positions.push_back(t);
  const Tensor positions_device =
      bench::context().upload<std::int32_t>({shape[0]}, DType::i32, positions, MemoryTag::scratch);
  const Tensor y = bench::zeros(shape);
  const reference::RopeSizes sizes{static_cast<std::size_t>(shape[0]),
                                   static_cast<std::size_t>(shape[1]),
                                   static_cast<std::size_t>(shape[2])};
  const bool interleaved = layout == RopeLayout::interleaved;
  bench::time_op(
      state, y, reference::rope(x.values, positions, table.values, sizes, interleaved, 1),
      rope_cost(shape), [&](Batch& b) {
        record_rope(b, y, x.tensor, positions_device, table.tensor, layout, RopeDirection::forward);
      });
}

void half_split(benchmark::State& state, const Shape& shape) {
  rotate(state, shape, RopeLayout::half_split);
}

void interleaved(benchmark::State& state, const Shape& shape) {
  rotate(state, shape, RopeLayout::interleaved);
}

const bool kRegistered =
    bench::register_shapes("rope_half_split/fused/f32", {{2048, 9, 64}}, half_split) &&
    bench::register_shapes("rope_interleaved/fused/f32", {{2048, 9, 64}}, interleaved);

}  // namespace
}  // namespace clora
