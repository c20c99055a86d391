// The memory-bound ops of a block of Qwen2.5-0.5B's shape, over 8192 rows:
// swiglu/fused/bf16/TxF/warm and swiglu_backward, with and without recomputing the forward result;
// rope/fused/bf16/TxHxE/warm, and rope_backward with the parts of two key heads;
// rms_norm_backward/fused/f32/TxD/warm with a residual and a bf16 copy of dx, with and without
// recomputing the forward result. Only on GPUs (wants_large()).
#include <numeric>

#include "bench/support/bulk.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"
#include "clora/ops/rowwise/rope.hpp"
#include "clora/ops/rowwise/swiglu.hpp"
#include "tests/reference/rms_norm_reference.hpp"
#include "tests/reference/rope_reference.hpp"
#include "tests/reference/swiglu_reference.hpp"

namespace clora::bench {
namespace {

constexpr DType kType = DType::bf16;
constexpr double kBf16Rounding = 0x1p-8;
constexpr float kEpsilon = 1e-5F;

void swiglu(OpBench& bench, const Shape& shape) {
  const Bulk gate(shape, kType, 1, 8), up(shape, kType, 2);
  bench.cost = swiglu_cost(shape, kType, false, kType);
  bench.tolerance = kBf16Rounding;
  bench.record([&](BufferSet& set) {
    const Tensor y = bulk_output(set, shape, kType);
    record_swiglu(set.batch(), y, gate.upload(set), up.upload(set));
    expect_last(set, y, [&] { return reference::swiglu(gate.last_row(), up.last_row()); });
  });
}

void swiglu_backward(OpBench& bench, const Shape& shape, bool recompute) {
  const Bulk gate(shape, kType, 1, 8), up(shape, kType, 2), dy(shape, kType, 3);
  bench.cost = swiglu_backward_cost(shape, kType, kType, kType,
                                    recompute ? std::optional(kType) : std::nullopt);
  bench.tolerance = kBf16Rounding;
  bench.record([&](BufferSet& set) {
    const Tensor dgate = bulk_output(set, shape, kType), dup = bulk_output(set, shape, kType);
    const Tensor y = recompute ? bulk_output(set, shape, kType) : Tensor();
    record_swiglu_backward(set.batch(), dgate, dup, dy.upload(set), gate.upload(set),
                           up.upload(set), y);
    if (recompute) {
      expect_last(set, y, [&] { return reference::swiglu(gate.last_row(), up.last_row()); });
    }
    const auto want = [&] {
      return reference::swiglu_backward(dy.last_row(), gate.last_row(), up.last_row());
    };
    expect_last(set, dgate, [want] { return want().dgate; });
    expect_last(set, dup, [want] { return want().dup; });
  });
}

// Positions in descending order; the last token is at position 0.
std::vector<std::int32_t> downwards(std::int64_t tokens) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(tokens));
  std::iota(positions.rbegin(), positions.rend(), 0);
  return positions;
}

void rope(OpBench& bench, const Shape& shape) {
  const Bulk x(shape, kType, 1);
  const Bulk table({shape[0], shape[2] / 2, 2}, DType::f32, 2);  // arbitrary values
  const std::vector<std::int32_t> positions = downwards(shape[0]);
  const auto width = static_cast<std::size_t>(shape[2]);
  bench.cost = rope_cost(shape, kType);
  bench.tolerance = kBf16Rounding;
  bench.record([&](BufferSet& set) {
    const Tensor y = bulk_output(set, shape, kType);
    record_rope(set.batch(), y, x.upload(set), set.input({shape[0]}, positions), table.upload(set),
                RopeLayout::half_split, RopeDirection::forward);
    expect_last(set, y, [&] {  // the last row is a head of the last token, at position 0
      return reference::rope(x.last_row(), std::vector<std::int32_t>{0}, table.part(0, width),
                             {1, 1, width}, false, 1);
    });
  });
}

void rope_of_parts(OpBench& bench, const Shape& shape, std::int64_t key_heads) {
  const Shape of_keys{shape[0], key_heads, shape[2]};
  const Bulk keys(shape, kType, 2), values(shape, kType, 3);
  const Bulk table({shape[0], shape[2] / 2, 2}, DType::f32, 4);  // arbitrary values
  const std::vector<std::int32_t> positions = downwards(shape[0]);
  const auto width = static_cast<std::size_t>(shape[2]);
  const auto parts = static_cast<std::size_t>(shape[1] / key_heads);
  const auto sum = [width, parts](const Bulk& bulk) {
    const auto end = static_cast<std::size_t>(bulk.shape().elements());
    std::vector<double> total(width);
    for (std::size_t h = 0; h < parts; ++h) {
      const std::vector<double> part = bulk.part(end - (h + 1) * width, width);
      for (std::size_t i = 0; i < width; ++i) total[i] += part[i];
    }
    return total;
  };
  bench.cost = rope_of_parts_cost(shape, key_heads, kType);
  bench.tolerance = kBf16Rounding;
  bench.record([&](BufferSet& set) {
    const Tensor queries = bulk_output(set, shape, kType);  // in place; NaNs take as long
    const Tensor dk = bulk_output(set, of_keys, kType), dv = bulk_output(set, of_keys, kType);
    record_rope_of_parts(set.batch(), {queries, dk, dv, keys.upload(set), values.upload(set)},
                         set.input({shape[0]}, positions), table.upload(set),
                         RopeLayout::half_split, RopeDirection::backward);
    expect_last(set, dk, [&, sum] {
      return reference::rope(sum(keys), std::vector<std::int32_t>{0}, table.part(0, width),
                             {1, 1, width}, false, -1);
    });
    expect_last(set, dv, [&, sum] { return sum(values); });
  });
}

void rms_norm_backward(OpBench& bench, const Shape& shape, bool recompute) {
  const Bulk x(shape, DType::f32, 1), dy(shape, DType::f32, 2), w({shape.last()}, DType::f32, 3);
  bench.cost = rms_norm_backward_cost(
      shape, true, {.rounds = true, .y = recompute ? std::optional(kType) : std::nullopt});
  bench.tolerance = kBf16Rounding;
  bench.record([&](BufferSet& set) {
    const Tensor dx = bulk_output(set, shape, DType::f32);
    const Tensor residual = dy.upload(set), bf16 = bulk_output(set, shape, kType);
    const Tensor y = recompute ? bulk_output(set, shape, kType) : Tensor();
    record_rms_norm_backward(set.batch(), dx, residual, x.upload(set), w.upload(set), residual,
                             kEpsilon, {bf16, y});
    if (recompute) {
      expect_last(set, y,
                  [&] { return reference::rms_norm(x.last_row(), w.last_row(), kEpsilon); });
    }
    const auto want = [&] {
      std::vector<double> sum =
          reference::rms_norm_backward(dy.last_row(), x.last_row(), w.last_row(), kEpsilon);
      const std::vector<double> added = dy.last_row();
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += added[i];
      return sum;
    };
    expect_last(set, dx, want);
    expect_last(set, bf16, want);
  });
}

const bool kAdded = add_family([] {
  if (!wants_large()) return;
  const auto name = [](std::string op, DType type, const Shape& shape) {
    return Name{
        .op = std::move(op), .type = std::string(name_of(type)), .shape = shape, .words = {"warm"}};
  };
  const Shape wide{8192, 4864}, heads{8192, 14, 64};
  add(name("swiglu", kType, wide), swiglu, wide);
  add(name("swiglu_backward", kType, wide), swiglu_backward, wide, false);
  add(name("swiglu_backward", kType, wide).with("recompute"), swiglu_backward, wide, true);
  add(name("rope", kType, heads), rope, heads);
  add(name("rope_backward", kType, heads).with("parts"), rope_of_parts, heads, std::int64_t{2});
  for (const Shape& stream : {Shape{8192, 896}, Shape{8192, 3584}}) {
    const Name plain = name("rms_norm_backward", DType::f32, stream);
    add(plain, rms_norm_backward, stream, false);
    add(plain.with("recompute"), rms_norm_backward, stream, true);
  }
});

}  // namespace
}  // namespace clora::bench
