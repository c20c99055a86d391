// Ops on a GPU over tensors of more than 2^32 elements, and over more rows than the grid's second
// dimension has work-groups: their results for the last rows equal the results for these rows
// alone. Each test covers one op, so the first failing test names the kernel; a kernel that writes
// out of bounds makes the tests after it fail as well. The tests need up to 60 GiB of GPU memory.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "clora/ops/attention/attention.hpp"
#include "clora/ops/lora_linear/lora_linear.hpp"
#include "clora/ops/rowwise/swiglu.hpp"
#include "ops/activations.hpp"
#include "ops/hopper/tensor_maps.hpp"
#include "runtime/memory/half.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

constexpr std::int64_t kWide = 1 << 16;
constexpr std::int64_t kRows = 576 * 128;  // kRows * kWide > 2^32
constexpr std::int64_t kLast = 133 * 128;  // enough for the same split of the sums
constexpr std::int64_t kFirstOfLast = kRows - kLast;
constexpr std::int64_t kNarrow = 24;
constexpr std::int64_t kRank = 2;
constexpr std::int64_t kWindow = 64;
// Products split long sums at the ends of tiles, so rows alone may be summed in another order.
constexpr double kOtherSplit = 1e-5;

Tensor last_of(const Tensor& t) { return t.rows(kFirstOfLast, kLast); }

class LargeTensors : public testing::Test {
 protected:
  void SetUp() override {
    ContextConfig config = config_from_environment();
    const Device device = select_device(config.device);
    if (device.kind != DeviceKind::gpu) GTEST_SKIP() << "needs a GPU";
    if (device.memory_bytes < std::uint64_t{120} << 30U)
      GTEST_SKIP() << "needs a GPU with 120 GiB of memory";
    context_.emplace(config);
  }

  Context& context() { return *context_; }
  template <class F>
  void run(F f) {
    Batch batch(context());
    f(batch);
    batch.submit().wait();
  }
  Tensor allocate(Shape shape, DType type = DType::bf16) {
    return context().allocate(shape, type, MemoryTag::activations);
  }
  Tensor small(Shape shape, std::uint32_t seed, DType type = DType::f32) {
    auto values = test::random_values(static_cast<std::size_t>(shape.elements()), seed);
    return test::upload_as(context(), type, shape, values);
  }
  // [kRows, kWide] of values that repeat after a prime number of rows, so that no power of two is a
  // multiple of the period.
  Tensor large(std::uint32_t seed, DType type = DType::bf16) {
    constexpr std::int64_t kPeriod = 509;
    const Tensor all = allocate({kRows, kWide}, type);
    const Tensor first = small({kPeriod, kWide}, seed, type);
    run([&](Batch& batch) {
      batch.copy(all.rows(0, kPeriod), first);
      for (std::int64_t done = kPeriod; done < kRows; done *= 2) {
        const std::int64_t more = std::min(done, kRows - done);
        batch.copy(all.rows(done, more), all.rows(0, more));
      }
    });
    return all;
  }

  std::vector<double> read(const Tensor& t) {
    if (t.type() == DType::f32) return test::to_double(context().read<float>(t));
    std::vector<double> values;
    for (const auto half : context().read<std::uint16_t>(t)) {
      values.push_back(bf16_to_float(half));
    }
    return values;
  }
  // The tolerance is relative to the largest value; 0 requires the same bits.
  void expect_alike(const Tensor& got, const Tensor& want, double tolerance,
                    const std::string& what) {
    const std::vector<double> a = read(got), b = read(want);
    double largest = 0;
    for (const double value : b) largest = std::max(largest, std::abs(value));
    EXPECT_GT(largest, 0) << what;
    for (std::size_t i = 0; i < b.size(); ++i) {
      if (std::abs(a[i] - b[i]) <= tolerance * largest) continue;  // false for NaN
      ADD_FAILURE() << what << ": element " << i << " is " << a[i] << " in place of " << b[i];
      return;
    }
  }
  // Compares some of the last rows: at their start, around element 2^32, and at the end.
  void expect_last_rows(const Tensor& whole, const Tensor& alone, double tolerance = 0) {
    const std::int64_t border = (std::int64_t{1} << 32U) / kWide - kFirstOfLast;
    for (const std::int64_t row : {std::int64_t{0}, border - kWindow / 2, kLast - kWindow}) {
      expect_alike(whole.rows(kFirstOfLast + row, kWindow), alone.rows(row, kWindow), tolerance,
                   fmt::format("from row {} of {}", kFirstOfLast + row, whole.text()));
    }
  }

  std::optional<Context> context_;
};

TEST_F(LargeTensors, AreForcedIntoMemoryAndZeroedFarIntoABlock) {
  const Device& device = context().device();
  const auto bytes = static_cast<std::int64_t>(
      std::min(device.max_allocation_bytes, device.memory_bytes / 3) / kWide * kWide);
  const Tensor all = allocate({bytes / kWide, kWide}, DType::u8);
  context().commit(all, MemoryTag::activations);
  const std::vector<std::byte> ones(3 * kWide, std::byte{1});
  const Tensor end = all.rows(all.shape()[0] - 3, 3);
  context().write(end, ones);
  Batch fill(context());
  fill.fill_zero(end);
  CLORA_EXPECT_ERROR(fill.seal(), ErrorCode::unsupported, "fill incorrectly");
  run([&](Batch& batch) { record_zero_words(batch, end.rows(1, 1), "zeros"); });
  const auto seen = context().read<std::uint8_t>(end);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i], i / kWide == 1 ? 0 : 1) << i;
  }
}

TEST_F(LargeTensors, AreCastToBf16AndUpcast) {
  const Tensor x = large(1, DType::f32), bf16 = allocate(x.shape());
  const Tensor alone = allocate({kLast, kWide});
  run([&](Batch& batch) { record_cast_to_bf16(batch, bf16, x); });
  run([&](Batch& batch) { record_cast_to_bf16(batch, alone, last_of(x)); });
  expect_last_rows(bf16, alone);
  run([&](Batch& batch) { batch.copy(x, record_upcast(batch, bf16)); });
  expect_last_rows(x, alone);
}

TEST_F(LargeTensors, ComeOutOfSwiglu) {
  const Tensor gate = large(1), up = large(2), y = allocate(gate.shape());
  const Tensor alone = allocate({kLast, kWide});
  run([&](Batch& batch) { record_swiglu(batch, y, gate, up); });
  run([&](Batch& batch) { record_swiglu(batch, alone, last_of(gate), last_of(up)); });
  expect_last_rows(y, alone);
}

TEST_F(LargeTensors, ComeOutOfSwiglusBackward) {
  const Tensor gate = large(1), up = large(2), dy = large(3);
  const Tensor dgate = allocate(gate.shape()), dup = allocate(gate.shape());
  const Shape of_last{kLast, kWide};
  const Tensor dgate_alone = allocate(of_last), dup_alone = allocate(of_last),
               y_alone = allocate(of_last);
  run([&](Batch& batch) {
    record_swiglu_backward(batch, dgate_alone, dup_alone, last_of(dy), last_of(gate), last_of(up),
                           y_alone);
  });
  run([&](Batch& batch) { record_swiglu_backward(batch, dgate, dup, dy, gate, up, dy); });
  expect_last_rows(dgate, dgate_alone);
  expect_last_rows(dup, dup_alone);
  expect_last_rows(dy, y_alone);
}

TEST_F(LargeTensors, ComeOutOfAProduct) {
  const Tensor x = small({kRows, kNarrow}, 1, DType::bf16);
  const Tensor w = small({kWide, kNarrow}, 2, DType::bf16);
  const Tensor y = allocate({kRows, kWide}), alone = allocate({kLast, kWide});
  run([&](Batch& batch) { record_gemm(batch, y, x, w); });
  run([&](Batch& batch) { record_gemm(batch, alone, last_of(x), w); });
  expect_last_rows(y, alone);
}

TEST_F(LargeTensors, GoIntoAProduct) {
  const Tensor x = large(1), w = small({kNarrow, kWide}, 2, DType::bf16);
  const Tensor y = allocate({kRows, kNarrow}, DType::f32);
  const Tensor alone = allocate({kLast, kNarrow}, DType::f32);
  run([&](Batch& batch) { record_gemm(batch, y, x, w); });
  run([&](Batch& batch) { record_gemm(batch, alone, last_of(x), w); });
  expect_last_rows(y, alone, kOtherSplit);
}

TEST_F(LargeTensors, ComeOutOfAProductsBackward) {
  const Tensor dy = small({kRows, kNarrow}, 1, DType::bf16);
  const Tensor w = small({kNarrow, kWide}, 2, DType::bf16);
  const Tensor s = small({kRows, kRank}, 3, DType::bf16), u = small({kRank, kWide}, 4);
  const Tensor dx = allocate({kRows, kWide}), alone = allocate({kLast, kWide});
  run([&](Batch& batch) {
    record_gemm_backward(batch, dx, dy, w, Accumulate::no, {.s = s, .u = u});
  });
  run([&](Batch& batch) {
    record_gemm_backward(batch, alone, last_of(dy), w, Accumulate::no, {.s = last_of(s), .u = u});
  });
  expect_last_rows(dx, alone);
}

TEST_F(LargeTensors, GoIntoAProductsBackward) {
  const Tensor dgate = large(1), dup = large(2);
  const Tensor w = small({kWide, kNarrow}, 3, DType::bf16);
  const Tensor dx = allocate({kRows, kNarrow}, DType::f32);
  const Tensor alone = allocate({kLast, kNarrow}, DType::f32);
  const auto record = [&](Batch& batch, const Tensor& to, const Tensor& a, const Tensor& b) {
    const std::vector<GemmTerm> terms{{a, w}, {b, w}};
    record_gemm_backward_sum(batch, to, terms, Accumulate::no);
  };
  run([&](Batch& batch) { record(batch, dx, dgate, dup); });
  run([&](Batch& batch) { record(batch, alone, last_of(dgate), last_of(dup)); });
  expect_last_rows(dx, alone, kOtherSplit);
}

// A linear layer with an adapter, forward and backward, over all rows of its arguments.
struct Layer {
  LinearWeights weights;
  LoraWeights lora;
  LoraGradients gradients;

  void record(Batch& batch, const Tensor& y, const Tensor& dx, const Tensor& s, const Tensor& x,
              const Tensor& dy) const {
    record_lora_linear(batch, y, s, x, weights, lora);
    record_lora_linear_backward(batch, dx, gradients, dy, {x, s}, weights, lora, Accumulate::no);
  }
};

class LargeLayers : public LargeTensors {
 protected:
  // The tolerances allow for s being computed inside a product or before it, depending on the
  // number of rows.
  void expect_right(std::int64_t in, std::int64_t out, const Tensor& x, const Tensor& dy) {
    Layer layer{.weights = {small({out, in}, 5, DType::bf16), {}},
                .lora = {.a = small({kRank, in}, 6), .bt = small({kRank, out}, 7), .scale = 0.5F},
                .gradients = {}};
    const auto zeros = [&](std::int64_t width) {
      const std::vector<float> values(static_cast<std::size_t>(kRank * width), 0.0F);
      return test::upload(context(), {kRank, width}, values);
    };
    const Tensor y = allocate({kRows, out}), s = allocate({kRows, kRank});
    const Tensor dx = allocate({kRows, in});
    const LoraGradients whole{zeros(in), zeros(out)}, in_two{zeros(in), zeros(out)};
    layer.gradients = whole;
    run([&](Batch& batch) { layer.record(batch, y, dx, s, x, dy); });

    layer.gradients = in_two;
    const Tensor y_alone = allocate({kLast, out}), dx_alone = allocate({kLast, in});
    const Tensor s_alone = allocate({kLast, kRank});
    run([&](Batch& batch) {
      layer.record(batch, y_alone, dx_alone, s_alone, last_of(x), last_of(dy));
    });
    expect_last_rows(y, y_alone, 0.02);
    expect_last_rows(s, s_alone, 0.02);
    expect_last_rows(dx, dx_alone, 0.02);
    const auto before = [&](const Tensor& t) { return t.rows(0, kFirstOfLast); };
    run([&](Batch& batch) {
      record_lora_linear_backward(batch, before(dx), in_two, before(dy), {before(x), before(s)},
                                  layer.weights, layer.lora, Accumulate::no);
    });
    expect_alike(whole.da, in_two.da, 0.02, "da");
    expect_alike(whole.dbt, in_two.dbt, 0.02, "dbt");
  }
};

TEST_F(LargeLayers, WithManyOutputsAreRight) {
  expect_right(kNarrow, kWide, small({kRows, kNarrow}, 1, DType::bf16), large(2));
}

TEST_F(LargeLayers, WithManyInputsAreRight) {
  expect_right(kWide, kNarrow, large(1), small({kRows, kNarrow}, 2, DType::bf16));
}

// Documents of 64 rows; the last documents are also computed alone.
class ManyRows : public LargeTensors {
 protected:
  struct Run {
    Tensor y, log_sum_exp;
    AttentionGradients d;
  };
  Run attend(std::int64_t first_row, std::int64_t rows, std::int64_t width) {
    constexpr std::int64_t kHeads = 4, kKeyHeads = 2;
    std::vector<std::int32_t> first, last;
    for (std::int32_t row = 0; row < rows; ++row) {
      first.push_back(row - row % 64);
      last.push_back(row);
    }
    const auto part = [&](std::int64_t heads, std::uint32_t seed) {
      return small({first_row + rows, heads, width}, seed).rows(first_row, rows);
    };
    const AttentionInputs in{.q = part(kHeads, 1),
                             .k = part(kKeyHeads, 2),
                             .v = part(kKeyHeads, 3),
                             .first = test::upload(context(), {rows}, first),
                             .last = test::upload(context(), {rows}, last),
                             .scale = 0.25F};
    const auto like = [&](const Tensor& t) { return allocate(t.shape(), DType::f32); };
    Run computed{
        like(in.q), allocate({rows, kHeads}, DType::f32), {like(in.q), like(in.k), like(in.v)}};
    run([&](Batch& batch) {
      record_attention(batch, computed.y, computed.log_sum_exp, in);
      record_attention_backward(batch, computed.d, part(kHeads, 4), computed.y,
                                computed.log_sum_exp, in);
    });
    return computed;
  }
};

TEST_F(ManyRows, ThanADimensionHasGroupsAreAttendedTo) {
  constexpr std::int64_t kAll = 547 * 128, kEnd = 10 * 128;
  for (const std::int64_t width : {8, 64}) {
    const Run all = attend(0, kAll, width), alone = attend(kAll - kEnd, kEnd, width);
    const auto expect_end = [&](const Tensor& whole, const Tensor& end, const std::string& what) {
      expect_alike(whole.rows(kAll - kEnd, kEnd), end, 0, fmt::format("{} of {}", what, width));
    };
    expect_end(all.y, alone.y, "y");
    expect_end(all.log_sum_exp, alone.log_sum_exp, "log_sum_exp");
    expect_end(all.d.dq, alone.d.dq, "dq");
    expect_end(all.d.dk, alone.d.dk, "dk");
    expect_end(all.d.dv, alone.d.dv, "dv");
  }
}

}  // namespace
}  // namespace clora
