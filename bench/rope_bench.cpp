// rope/fused/f32/TxHxE/LAYOUT and rope_backward: the queries of SmolLM2-135M.
#include "clora/ops/rowwise/rope.hpp"

#include <numeric>

#include "bench/support/op_bench.hpp"
#include "tests/reference/rope_reference.hpp"

namespace clora::bench {
namespace {

void rope(OpBench& bench, const Shape& shape, RopeLayout layout, RopeDirection direction) {
  const Operand x(shape, 1);
  const Operand table({shape[0], shape[2] / 2, 2}, 2);  // arbitrary values take the same time
  std::vector<std::int32_t> positions(static_cast<std::size_t>(shape[0]));
  std::iota(positions.begin(), positions.end(), 0);
  const reference::RopeSizes sizes{static_cast<std::size_t>(shape[0]),
                                   static_cast<std::size_t>(shape[1]),
                                   static_cast<std::size_t>(shape[2])};
  bench.cost = rope_cost(shape);
  bench.record([&](BufferSet& set) {
    const Tensor y = set.output(shape);
    record_rope(set.batch(), y, set.input(x), set.input({shape[0]}, positions), set.input(table),
                layout, direction);
    set.expect(y, [&] {
      return reference::rope(x.values, positions, table.values, sizes,
                             layout == RopeLayout::interleaved,
                             direction == RopeDirection::forward ? 1 : -1);
    });
  });
}

const bool kAdded = add_family([] {
  const Shape shape{2048, 9, 64};
  for (const auto& [word, layout] : {std::pair{"half_split", RopeLayout::half_split},
                                     std::pair{"interleaved", RopeLayout::interleaved}}) {
    add({.op = "rope", .shape = shape, .words = {word}}, rope, shape, layout,
        RopeDirection::forward);
    add({.op = "rope_backward", .shape = shape, .words = {word}}, rope, shape, layout,
        RopeDirection::backward);
  }
});

}  // namespace
}  // namespace clora::bench
