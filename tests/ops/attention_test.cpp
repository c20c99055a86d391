#include "clora/ops/attention/attention.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ops/attention/attention_spec.hpp"
#include "tests/reference/attention_reference.hpp"
#include "tests/support/attention_problems.hpp"

namespace clora {
namespace {

using test::cached;
using test::expect_close;
using test::Floats;
using test::kHeadDims;
using test::kHeads;
using test::kNarrowWidths;
using test::Output;
using test::packed;
using test::Problem;
using test::shape_of;
using test::Types;

using Attention = test::AttentionTest;
INSTANTIATE_TEST_SUITE_P(Variants, Attention, test::all_variants(), test::variant_name);

TEST_P(Attention, MatchesTheFormulaForPackedDocuments) {
  for (const auto& [H, G, E] : kHeads) {
    check_forward(packed({31, 1, 70, 2, 33}, H, G, E), fmt::format("H {} G {} E {}", H, G, E));
  }
}

TEST_P(Attention, MatchesTheFormulaForOneDocumentOfAnyLength) {
  for (const std::size_t length : {1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 131, 300}) {
    for (const std::size_t E : kHeadDims) {
      check_forward(packed({length}, 3, 1, E), fmt::format("one document of {}, E {}", length, E));
    }
  }
}

TEST_P(Attention, MatchesTheFormulaForWindowsInAnyOrder) {
  for (const std::size_t T : {3, 37}) {
    for (const std::size_t E : kHeadDims) {
      Problem p = cached(T, 200, 203, 4, 2, E);
      for (std::size_t t = 0; t < T; ++t) {
        p.first[t] = static_cast<std::int32_t>(t * 89 % 150);
        p.last[t] = p.first[t] + static_cast<std::int32_t>(t * 7 % 50);
      }
      check_forward(p, fmt::format("windows, T {}, E {}", T, E));
    }
  }
}

// More keys than the bf16 kernels stage at once, more heads than they process at once, and two
// blocks of rows per group.
TEST_P(Attention, MatchesTheFormulaForManyRowsAndForManyHeads) {
  const Problem many = packed({1824, 516}, 1, 1, 32);
  check_forward(many, "many rows");
  check_backward(many, "many rows");
  check_backward(packed({70, 90}, 6, 1, 32), "six heads of one key head");
  check_forward(packed({70, 90, 400}, 6, 1, 32), "six heads of one key head");
}

// Several blocks of rows and of keys for every kernel. Documents begin anywhere in a block.
TEST_P(Attention, MatchesTheFormulaOverManyBlocks) {
  for (const std::size_t E : {64, 128}) {
    const Problem p = packed({300, 128, 1, 339, 70}, 4, 2, E);
    check_forward(p, fmt::format("many blocks, E {}", E));
    check_backward(p, fmt::format("many blocks, E {}", E));
    check_backward(packed({700}, 2, 2, E), fmt::format("one document, E {}", E));
  }
}

// Persistent work-groups process several tiles each.
TEST_P(Attention, MatchesTheFormulaOverMoreTilesThanAGpuRunsConcurrently) {
  for (const std::size_t E : {64, 128}) {
    check_forward(packed({300, 70}, 140, 1, E), fmt::format("many heads, E {}", E));
  }
}

TEST_P(Attention, ComesFromLargeScoresWithoutOverflow) {
  for (const std::size_t E : kHeadDims) {
    Problem p = packed({90}, 2, 1, E);
    if (!p.affordable()) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small";
    for (float& x : p.q) x *= 40;
    const Problem same = rounds(p) ? p.cast_to_bf16(GetParam()) : p;
    // The rounding error of scores in the hundreds enters the exponent.
    expect_close(forward(p).y, same.reference().y, rounds(p) ? 0x1p-7 : 1e-3, "y");
  }
}

class AttentionBeyondTheRange : public Attention {
 protected:
  void expect_nothing_read(std::size_t T, std::size_t E, DType keys);
};
INSTANTIATE_TEST_SUITE_P(Variants, AttentionBeyondTheRange, test::all_variants(),
                         test::variant_name);

void AttentionBeyondTheRange::expect_nothing_read(std::size_t T, std::size_t E, DType keys) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const Types types{.keys = keys};
  Problem p = cached(T, 50, 90, 4, 2, E);
  // Query 0 attends to a window at the end, the others to one at the start. No query attends to
  // the rows between.
  for (std::size_t t = 0; t < T; ++t) p.last[t] = static_cast<std::int32_t>(10 + t);
  p.first[0] = 70;
  p.last[0] = 80;
  const Floats want = forward(p, types).y;
  const std::size_t width = 2 * E;
  for (std::size_t row = 0; row < 90; ++row) {
    const bool seen = (row >= 70 && row <= 80) || (T > 1 && row < 10 + T);
    if (seen) continue;
    std::fill_n(p.k.begin() + static_cast<std::ptrdiff_t>(row * width), width, nan);
    std::fill_n(p.v.begin() + static_cast<std::ptrdiff_t>(row * width), width, nan);
  }
  EXPECT_EQ(forward(p, types).y, want) << "T " << T << " E " << E << " " << name_of(keys);
}

TEST_P(AttentionBeyondTheRange, ReadsNothing) {
  for (const DType keys : {DType::f32, DType::bf16, DType::f16}) {
    for (const auto& [T, E] : {std::pair<std::size_t, std::size_t>{1, 16}, {19, 16}, {19, 32}}) {
      expect_nothing_read(T, E, keys);
    }
  }
}

TEST_P(Attention, ShowsANaNInsideTheRange) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [T, E] : {std::pair<std::size_t, std::size_t>{1, 16}, {40, 16}, {40, 32}}) {
    const Problem good = cached(T, 60, 64, 1, 1, E);
    for (const std::size_t row : {3, 59}) {
      Problem p = good, other = good;
      p.k[row * E] = nan;
      other.v[row * E + E - 1] = nan;
      EXPECT_TRUE(std::isnan(forward(p).y.back())) << "T " << T << " E " << E << " row " << row;
      EXPECT_TRUE(std::isnan(forward(other).y.back())) << "T " << T << " E " << E << " row " << row;
    }
  }
}

class AttentionOfWidth : public Attention {
 protected:
  void expect_independent_documents(std::size_t E) {
    const Problem p = packed({20, 45, 30}, 4, 2, E);
    if (!p.affordable()) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small";
    Problem other = p;
    const auto change = [](Floats& x, std::size_t width, float value) {
      std::fill_n(x.begin(), 20 * width, value);
      std::fill(x.begin() + static_cast<std::ptrdiff_t>(65 * width), x.end(), value);
    };
    change(other.q, 4 * E, 3);
    change(other.k, 2 * E, -2);
    change(other.v, 2 * E, 100);
    change(other.dy, 4 * E, 5);
    const auto middle = [](const Floats& x, std::size_t width) {
      return Floats(x.begin() + static_cast<std::ptrdiff_t>(20 * width),
                    x.begin() + static_cast<std::ptrdiff_t>(65 * width));
    };
    EXPECT_EQ(middle(forward(p).y, 4 * E), middle(forward(other).y, 4 * E));
    const Gradients a = backward(p), b = backward(other);
    EXPECT_EQ(middle(a.dq, 4 * E), middle(b.dq, 4 * E));
    EXPECT_EQ(middle(a.dk, 2 * E), middle(b.dk, 2 * E));
    EXPECT_EQ(middle(a.dv, 2 * E), middle(b.dv, 2 * E));
    EXPECT_NE(a.dv, b.dv) << "the change reached no document at all";
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, AttentionOfWidth, test::all_variants(), test::variant_name);

TEST_P(AttentionOfWidth, AttendsToNoOtherDocument) {
  for (const std::size_t E : kHeadDims) expect_independent_documents(E);
}

TEST_P(Attention, KeepsANaNOfOneDocumentOutOfTheOthers) {
  for (const std::size_t E : kNarrowWidths) {
    Problem p = packed({20, 45}, 2, 1, E);
    const Floats want = forward(p).y;
    std::fill_n(p.k.begin(), 20 * E, std::numeric_limits<float>::quiet_NaN());
    std::fill_n(p.v.begin(), 20 * E, std::numeric_limits<float>::quiet_NaN());
    const Floats got = forward(p).y;
    const auto begin = static_cast<std::ptrdiff_t>(20 * 2 * E);
    EXPECT_TRUE(std::equal(got.begin() + begin, got.end(), want.begin() + begin)) << "E " << E;
  }
}

TEST_P(Attention, NeedsNoLogSumExp) {
  const Problem p = packed({40}, 2, 1, 16);
  const Output y(context(), shape_of(40, 2, 16));
  run([&](Batch& batch) { record_attention(batch, y.tensor(), {}, p.inputs(context())); });
  EXPECT_EQ(y.values(), forward(p).y);
}

TEST_P(Attention, GivesTheSameBitsAgain) {
  const Problem p = packed({150, 37}, 9, 3, 64);
  if (!p.affordable()) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small";
  EXPECT_EQ(forward(p).y, forward(p).y);
  const Gradients a = backward(p), b = backward(p);
  EXPECT_EQ(a.dq, b.dq);
  EXPECT_EQ(a.dk, b.dk);
  EXPECT_EQ(a.dv, b.dv);
}

TEST_P(Attention, RefusesTensorsThatDoNotMatch) {
  Batch batch(context());
  const Problem p = packed({4}, 4, 2, 8);
  const AttentionInputs good = p.inputs(context());
  const Tensor y = context().allocate({4, 4, 8}, DType::f32, MemoryTag::scratch);
  const Tensor keys = context().allocate({4, 2, 8}, DType::f32, MemoryTag::scratch);
  const Tensor logs = context().allocate({4, 4}, DType::f32, MemoryTag::scratch);
  const auto message = [&](auto change) {
    AttentionInputs inputs = good;
    change(inputs);
    return test::error_of([&] { record_attention(batch, y, logs, inputs); });
  };
  using testing::HasSubstr;
  EXPECT_THAT(message([](auto& in) { in.soft_cap = -1; }),
              HasSubstr("the soft cap must be 0 (none) or more, got -1"));
  EXPECT_THAT(message([&](auto& in) { in.bias = logs; }),
              HasSubstr("the bias must be of 2P - 1 distances, got 4"));
  EXPECT_THAT(message([&](auto& in) {
                in.bias = logs.reshape({16, 1});
              }),
              HasSubstr("bias must be f32 [4, 1]"));
  EXPECT_THAT(message([](auto& in) { in.q = {}; }),
              HasSubstr("q must be f32, bf16 or f16 [T, H, E]"));
  EXPECT_THAT(message([](auto& in) { in.k = in.first; }), HasSubstr("k must be [Tk, G, 8]"));
  EXPECT_THAT(message([](auto& in) { in.v = in.v.rows(0, 3); }),
              HasSubstr("v must be f32 [4, 2, 8]"));
  const AttentionInputs halves = p.inputs(context(), {.keys = DType::f16});
  EXPECT_THAT(message([&](auto& in) { in.k = halves.k; }), HasSubstr("v must be f16 [4, 2, 8]"));
  EXPECT_THAT(message([](auto& in) { in.first = in.first.rows(0, 3); }),
              HasSubstr("first must be"));
  EXPECT_THAT(message([](auto& in) { in.last = {}; }), HasSubstr("last must be i32 [4]"));
  EXPECT_THAT(message([](auto& in) {
                in.k = in.v = in.q.reshape({4, 8, 4}).rows(0, 4);
              }),
              HasSubstr("multiple"));
  EXPECT_THAT(test::error_of([&] { record_attention(batch, keys, logs, good); }),
              HasSubstr("y must be f32 [4, 4, 8]"));
  EXPECT_THAT(test::error_of([&] { record_attention(batch, y, keys, good); }),
              HasSubstr("log_sum_exp must be f32 [4, 4]"));
  const auto backward_message = [&](const AttentionGradients& out, const Tensor& dy,
                                    const Tensor& result, const Tensor& log_sum_exp,
                                    const AttentionInputs& inputs) {
    return test::error_of(
        [&] { record_attention_backward(batch, out, dy, result, log_sum_exp, inputs); });
  };
  const AttentionGradients out{y, keys, keys};
  EXPECT_THAT(backward_message({keys, keys, keys}, y, y, logs, good), HasSubstr("dq must be"));
  EXPECT_THAT(backward_message({y, y, keys}, y, y, logs, good), HasSubstr("dk must be"));
  EXPECT_THAT(backward_message({y, keys, y}, y, y, logs, good), HasSubstr("dv must be"));
  EXPECT_THAT(backward_message(out, keys, y, logs, good), HasSubstr("dy must be"));
  EXPECT_THAT(backward_message(out, y, keys, logs, good), HasSubstr(" y must be"));
  EXPECT_THAT(backward_message(out, y, y, {}, good), HasSubstr("log_sum_exp must be"));
  EXPECT_THAT(backward_message(out, y, y, logs, halves), HasSubstr("k must be f32 [4, 2, 8]"));
  EXPECT_THAT(backward_message(out, y, y, logs, cached(4, 5, 6, 4, 2, 8).inputs(context())),
              HasSubstr("4 rows like q"));
}

TEST(AttentionCost, CountsTwoProductsForEachPair) {
  const Cost cost = attention_cost({2, 3, 8}, 3);
  EXPECT_EQ(cost.flops, 4 * 3 * 3 * 8);
  EXPECT_EQ(cost.bytes, 2 * 4 * 2 * 3 * 8);
}

TEST(AttentionCost, IsOfOneDocumentUnlessTheInputsContainMore) {
  Context& context = test::context_of(Variant::portable);
  const auto tensor = [&](Shape shape, DType type = DType::f32) {
    return context.allocate(shape, type, MemoryTag::scratch);
  };
  AttentionInputs in{.q = tensor({5, 3, 8}),
                     .k = tensor({5, 1, 8}),
                     .v = tensor({5, 1, 8}),
                     .first = tensor({5}, DType::i32),
                     .last = tensor({5}, DType::i32)};
  EXPECT_EQ(checked_spec("attention", context, in).cost().flops, 4 * 15 * 3 * 8);
  in.keys_per_row = 1.4;
  EXPECT_DOUBLE_EQ(checked_spec("attention", context, in).cost().flops, 4 * 7 * 3 * 8);
}

}  // namespace
}  // namespace clora
