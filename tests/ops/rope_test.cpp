#include "clora/ops/rowwise/rope.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/reference/rope_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::Output;

constexpr std::int64_t kPositions = 50;
const double kTolerance = test::tolerance_of(2);

struct Case {
  Shape shape;
  std::vector<float> x, table;
  std::vector<std::int32_t> positions;

  // Positions are unordered and may repeat; that of the last of several tokens is padding.
  Case(std::int64_t tokens, std::int64_t heads, std::int64_t width) : shape{tokens, heads, width} {
    x = test::random_values(static_cast<std::size_t>(shape.elements()), 1);
    for (std::int64_t t = 0; t < tokens; ++t) {
      positions.push_back(static_cast<std::int32_t>((t * 37 + 11) % kPositions));
    }
    if (tokens > 1) positions.back() = -1;
    for (std::int64_t p = 0; p < kPositions; ++p) {
      for (std::int64_t i = 0; i < width / 2; ++i) {
        const double angle = static_cast<double>(p) * std::pow(0.7, static_cast<double>(i));
        table.push_back(static_cast<float>(std::cos(angle)));
        table.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }
  std::vector<double> rotated(RopeLayout layout, double sign) const {
    return rotated(test::to_double(x), layout, sign);
  }
  std::vector<double> rotated(const std::vector<double>& in, RopeLayout layout, double sign) const {
    const reference::RopeSizes sizes{static_cast<std::size_t>(shape[0]),
                                     static_cast<std::size_t>(shape[1]),
                                     static_cast<std::size_t>(shape[2])};
    std::vector<std::int32_t> used = positions;
    for (std::int32_t& position : used) position = std::max(position, 0);
    return reference::rope(in, used, test::to_double(table), sizes,
                           layout == RopeLayout::interleaved, sign);
  }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t width : {2, 6, 30, 32, 34, 62, 64, 66, 96, 128}) {
    all.emplace_back(5, 3, width);
  }
  all.emplace_back(1, 1, 2);
  all.emplace_back(1, 9, 64);
  all.emplace_back(67, 9, 64);
  std::erase_if(all, [](const Case& c) { return !test::affords(c.shape.elements()); });
  return all;
}

class Rope : public test::OpTest {
 protected:
  void record(Batch& b, const Tensor& y, const Tensor& x, const Case& c, RopeLayout layout,
              RopeDirection direction) {
    record_rope(b, y, x, test::upload(context(), {c.shape[0]}, c.positions),
                test::upload(context(), {kPositions, c.shape[2] / 2, 2}, c.table), layout,
                direction);
  }
  Tensor x_of(const Case& c) { return test::upload(context(), c.shape, c.x); }
};
INSTANTIATE_TEST_SUITE_P(Variants, Rope, test::all_variants(), test::variant_name);

// Heads of `width` elements of which the first ones are those of `part`.
std::vector<float> widened(const std::vector<float>& part, std::int64_t part_width,
                           std::int64_t width) {
  std::vector<float> all;
  for (std::size_t begin = 0; begin < part.size(); begin += static_cast<std::size_t>(part_width)) {
    for (std::int64_t e = 0; e < width; ++e) {
      all.push_back(e < part_width ? part[begin + static_cast<std::size_t>(e)]
                                   : static_cast<float>(e));
    }
  }
  return all;
}

TEST_P(Rope, RotatesTheFirstElementsOfAHeadIfTheTableHasFewerPairs) {
  for (const auto& [part, width] : {std::pair{48, 64}, {6, 8}, {2, 10}, {32, 96}}) {
    const Case c(5, 3, part);
    const Shape shape{5, 3, width};
    for (const RopeLayout layout : {RopeLayout::half_split, RopeLayout::interleaved}) {
      const Tensor first = test::upload(context(), shape, widened(c.x, part, width));
      const Tensor second = test::upload(context(), shape, widened(c.x, part, width));
      const Tensor again = test::upload(context(), shape, widened(c.x, part, width));
      run([&](Batch& b) {
        const Tensor positions = test::upload(context(), {5}, c.positions);
        const Tensor table = test::upload(context(), {kPositions, part / 2, 2}, c.table);
        record_rope(b, first, first, positions, table, layout, RopeDirection::backward);
        record_rope_of_two(b, {second, second}, {again, again}, positions, table, layout,
                           RopeDirection::forward);
      });
      const auto want = [&](double sign) {
        const auto rotated = c.rotated(layout, sign);
        return test::to_double(
            widened(std::vector<float>(rotated.begin(), rotated.end()), part, width));
      };
      const std::string what = fmt::format("{} of {}", part, width);
      test::expect_close(context().read<float>(first), want(-1), kTolerance, what + " backward");
      test::expect_close(context().read<float>(second), want(1), kTolerance, what);
      test::expect_close(context().read<float>(again), want(1), kTolerance, what + " of two");
    }
  }
}

TEST_P(Rope, AgreesWithTheReferenceInBothLayoutsAndDirections) {
  for (const Case& c : cases()) {
    for (const RopeLayout layout : {RopeLayout::half_split, RopeLayout::interleaved}) {
      const Output forward(context(), c.shape);
      const Output backward(context(), c.shape);
      run([&](Batch& b) {
        record(b, forward.tensor(), x_of(c), c, layout, RopeDirection::forward);
        record(b, backward.tensor(), x_of(c), c, layout, RopeDirection::backward);
      });
      const std::string what =
          c.shape.text() + (layout == RopeLayout::interleaved ? " interleaved" : " half_split");
      test::expect_close(forward.values(), c.rotated(layout, 1), kTolerance, what);
      test::expect_close(backward.values(), c.rotated(layout, -1), kTolerance, what + " backward");
    }
  }
}

TEST_P(Rope, BackwardUndoesForwardInPlace) {
  const Case c(7, 2, 70);
  for (const RopeLayout layout : {RopeLayout::half_split, RopeLayout::interleaved}) {
    const Tensor x = x_of(c);
    run([&](Batch& b) { record(b, x, x, c, layout, RopeDirection::forward); });
    test::expect_close(context().read<float>(x), c.rotated(layout, 1), kTolerance, "in place");
    run([&](Batch& b) { record(b, x, x, c, layout, RopeDirection::backward); });
    test::expect_close(context().read<float>(x), test::to_double(c.x), kTolerance, "and back");
  }
}

// Half head dims that are multiples of 8, of 4, and of neither.
TEST_P(Rope, TurnsBf16InPlaceOrNot) {
  for (const std::int64_t width : {2, 6, 8, 24, 64, 128}) {
    for (const RopeLayout layout : {RopeLayout::half_split, RopeLayout::interleaved}) {
      Case c(5, 3, width);
      const Tensor x = test::upload_as(context(), DType::bf16, c.shape, c.x);
      const Output y(context(), c.shape, DType::bf16), in_place(context(), c.shape, DType::bf16);
      run([&](Batch& b) {
        record(b, y.tensor(), x, c, layout, RopeDirection::forward);
        record(b, x, x, c, layout, RopeDirection::backward);
        b.copy(in_place.tensor(), x);
      });
      const double tolerance = kTolerance + test::rounding_of(DType::bf16);
      test::expect_close(y.values(), c.rotated(layout, 1), tolerance, c.shape.text());
      test::expect_close(in_place.values(), c.rotated(layout, -1), tolerance, c.shape.text());
    }
  }
}

TEST_P(Rope, TurnsTwoTensorsAtOnceAsEachByItself) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    for (const RopeLayout layout : {RopeLayout::half_split, RopeLayout::interleaved}) {
      Case many(67, 9, 64), few(67, 2, 64);
      few.x = test::random_values(few.x.size(), 5);
      const Tensor q = test::upload_as(context(), type, many.shape, many.x);
      const Tensor k = test::upload_as(context(), type, few.shape, few.x);
      const Output rotated_q(context(), many.shape, type), rotated_k(context(), few.shape, type);
      const Output in_place_q(context(), many.shape, type), in_place_k(context(), few.shape, type);
      run([&](Batch& b) {
        const Tensor positions = test::upload(context(), {67}, many.positions);
        const Tensor table = test::upload(context(), {kPositions, 32, 2}, many.table);
        record_rope_of_two(b, {rotated_q.tensor(), q}, {rotated_k.tensor(), k}, positions, table,
                           layout, RopeDirection::backward);
        record_rope_of_two(b, {q, q}, {k, k}, positions, table, layout, RopeDirection::backward);
        b.copy(in_place_q.tensor(), q);
        b.copy(in_place_k.tensor(), k);
      });
      EXPECT_EQ(in_place_q.values(), rotated_q.values());
      EXPECT_EQ(in_place_k.values(), rotated_k.values());
      const double tolerance = kTolerance + test::rounding_of(type);
      test::expect_close(rotated_q.values(), many.rotated(layout, -1), tolerance, "first");
      test::expect_close(rotated_k.values(), few.rotated(layout, -1), tolerance, "second");
    }
  }
}

// In place for one of the two tensors only.
TEST_P(Rope, TurnsOneOfTwoInPlace) {
  for (const bool second_in_place : {false, true}) {
    Case many(9, 3, 24), few(9, 1, 24);
    const Tensor q = x_of(many), k = x_of(few);
    const Output y(context(), second_in_place ? many.shape : few.shape);
    run([&](Batch& b) {
      record_rope_of_two(b, {second_in_place ? y.tensor() : q, q},
                         {second_in_place ? k : y.tensor(), k},
                         test::upload(context(), {9}, many.positions),
                         test::upload(context(), {kPositions, 12, 2}, many.table),
                         RopeLayout::half_split, RopeDirection::forward);
    });
    const std::vector<double> first = many.rotated(RopeLayout::half_split, 1);
    const std::vector<double> second = few.rotated(RopeLayout::half_split, 1);
    test::expect_close(y.values(), second_in_place ? first : second, kTolerance, "apart");
    test::expect_close(context().read<float>(second_in_place ? k : q),
                       second_in_place ? second : first, kTolerance, "in place");
  }
}

// [T, H, E] to [T, G, E].
std::vector<double> sums_of_heads(const Case& parts, std::int64_t G) {
  const auto E = static_cast<std::size_t>(parts.shape[2]);
  const auto group = static_cast<std::size_t>(parts.shape[1] / G);
  std::vector<double> sums(parts.x.size() / group);
  for (std::size_t i = 0; i < parts.x.size(); ++i) {
    sums[i / E / group * E + i % E] += static_cast<double>(parts.x[i]);
  }
  return sums;
}

// The same case with the table of another base.
Case with_faster_angles(Case c) {
  for (std::size_t i = 0; i < c.table.size(); ++i) c.table[i] *= i % 2 == 0 ? 0.5F : -1.5F;
  return c;
}

// Queries whose factor depends on their position have a table of their own.
TEST_P(Rope, TurnsEachOfTwoTensorsByItsOwnTable) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const RopeLayout layout : {RopeLayout::half_split, RopeLayout::interleaved}) {
      Case many(11, 6, 24), few = with_faster_angles(Case(11, 2, 24));
      const Tensor q = test::upload_as(context(), type, many.shape, many.x);
      const Tensor k = test::upload_as(context(), type, few.shape, few.x);
      const Output of_q(context(), many.shape, type), of_k(context(), few.shape, type);
      const Output in_place(context(), few.shape, type);
      run([&](Batch& b) {
        const Tensor positions = test::upload(context(), {11}, many.positions);
        const Tensor table = test::upload(context(), {kPositions, 12, 2}, many.table);
        const Tensor own = test::upload(context(), {kPositions, 12, 2}, few.table);
        record_rope_of_two(b, {of_q.tensor(), q}, {of_k.tensor(), k, own}, positions, table, layout,
                           RopeDirection::forward);
        record_rope_of_two(b, {q, q, table}, {k, k}, positions, own, layout,
                           RopeDirection::backward);
        b.copy(in_place.tensor(), k);
      });
      const double tolerance = 2 * kTolerance + test::rounding_of(type);
      test::expect_close(of_q.values(), many.rotated(layout, 1), tolerance, "first");
      test::expect_close(of_k.values(), few.rotated(layout, 1), tolerance, "second");
      test::expect_close(in_place.values(), few.rotated(layout, -1), tolerance, "in place");
    }
  }
}

TEST_P(Rope, TurnsTheSumsOfKeysPartsByTheirOwnTable) {
  constexpr std::int64_t H = 6, G = 2, E = 24;
  const Case queries(11, H, E), parts(11, H, E), keys = with_faster_angles(Case(11, G, E));
  const Output dq(context(), queries.shape), dk(context(), keys.shape), dv(context(), keys.shape);
  run([&](Batch& b) {
    const Tensor x = x_of(parts);
    b.copy(dq.tensor(), x_of(queries));
    record_rope_of_parts(b,
                         {.queries = dq.tensor(),
                          .keys = dk.tensor(),
                          .values = dv.tensor(),
                          .key_parts = x,
                          .value_parts = x,
                          .key_table = test::upload(context(), {kPositions, E / 2, 2}, keys.table)},
                         test::upload(context(), {11}, queries.positions),
                         test::upload(context(), {kPositions, E / 2, 2}, queries.table),
                         RopeLayout::half_split, RopeDirection::backward);
  });
  const double tolerance = test::tolerance_of(8);
  test::expect_close(dq.values(), queries.rotated(RopeLayout::half_split, -1), tolerance, "dq");
  test::expect_close(dk.values(), keys.rotated(sums_of_heads(parts, G), RopeLayout::half_split, -1),
                     tolerance, "dk");
}

struct Heads {
  std::int64_t H, G;
};

TEST_P(Rope, TurnsQueriesAndTheSumsOfKeysPartsAndAddsUpThoseOfValues) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    for (const RopeLayout layout : {RopeLayout::half_split, RopeLayout::interleaved}) {
      for (const auto& [H, G] : {Heads{1, 1}, {14, 2}, {6, 3}, {9, 1}, {4, 4}}) {
        for (const std::int64_t E : {2, 24, 64}) {
          Case queries(11, H, E), keys(11, H, E), values(11, H, E);
          keys.x = test::random_values(keys.x.size(), 5);
          values.x = test::random_values(values.x.size(), 6);
          const Tensor q = test::upload_as(context(), type, queries.shape, queries.x);
          const Tensor k = test::upload_as(context(), type, keys.shape, keys.x);
          const Tensor v = test::upload_as(context(), type, values.shape, values.x);
          const Output dq(context(), queries.shape, type), dk(context(), {11, G, E}, type),
              dv(context(), {11, G, E}, type);
          run([&](Batch& b) {
            b.copy(dq.tensor(), q);
            record_rope_of_parts(b, {dq.tensor(), dk.tensor(), dv.tensor(), k, v},
                                 test::upload(context(), {11}, queries.positions),
                                 test::upload(context(), {kPositions, E / 2, 2}, queries.table),
                                 layout, RopeDirection::backward);
          });
          const double tolerance =
              test::tolerance_of(static_cast<std::size_t>(H / G + 2)) + test::rounding_of(type);
          const std::string what = fmt::format("{} H {} G {} E {}", name_of(type), H, G, E);
          Case summed(11, G, E);
          test::expect_close(dq.values(), queries.rotated(layout, -1), tolerance, what + " dq");
          test::expect_close(dk.values(), summed.rotated(sums_of_heads(keys, G), layout, -1),
                             tolerance, what + " dk");
          test::expect_close(dv.values(), sums_of_heads(values, G), tolerance, what + " dv");
        }
      }
    }
  }
}

TEST_P(Rope, RefusesPartsThatDoNotMatch) {
  Batch b(context());
  const Case c(4, 6, 6);
  const auto of = [&](std::int64_t heads, DType type = DType::f32) {
    return context().allocate({4, heads, 6}, type, MemoryTag::scratch);
  };
  const Tensor q = x_of(c), k = of(2), v = of(2), parts = of(6), more = of(6);
  const Tensor positions = test::upload(context(), {4}, c.positions);
  const Tensor table = test::upload(context(), {kPositions, 3, 2}, c.table);
  const auto message = [&](const RopeOfParts& tensors) {
    return test::error_of([&] {
      record_rope_of_parts(b, tensors, positions, table, RopeLayout::half_split,
                           RopeDirection::backward);
    });
  };
  using testing::HasSubstr;
  EXPECT_THAT(message({q, of(4), v, parts, more}),
              HasSubstr("keys must be [4, G, 6] with G a divisor of 6, got f32 [4, 4, 6]"));
  EXPECT_THAT(message({q, {}, v, parts, more}), HasSubstr("G a divisor of 6, got nothing"));
  EXPECT_THAT(message({q, of(2, DType::bf16), v, parts, more}), HasSubstr("keys must be f32"));
  EXPECT_THAT(message({q, k, of(3), parts, more}), HasSubstr("values must be f32 [4, 2, 6]"));
  EXPECT_THAT(message({q, k, v, of(2), more}), HasSubstr("key_parts must be f32 [4, 6, 6]"));
  EXPECT_THAT(message({q, k, v, parts, of(2)}), HasSubstr("value_parts must be f32 [4, 6, 6]"));
  EXPECT_THAT(message({q, k, v, parts, q}), HasSubstr("parts must not overlap"));
  EXPECT_THAT(message({q, k, v, parts, more, table.rows(0, 49)}),
              HasSubstr("table must be f32 [50, 3, 2], got f32 [49, 3, 2]"));
  EXPECT_EQ(b.commands(), 0U);
}

TEST_P(Rope, RefusesTensorsThatDoNotMatch) {
  Batch b(context());
  const Case c(4, 2, 6);
  const Tensor x = x_of(c);
  const Tensor positions = test::upload(context(), {4}, c.positions);
  const Tensor table = test::upload(context(), {kPositions, 3, 2}, c.table);
  const auto message = [&](const Tensor& y, const Tensor& in, const Tensor& at, const Tensor& of) {
    return test::error_of(
        [&] { record_rope(b, y, in, at, of, RopeLayout::half_split, RopeDirection::forward); });
  };
  using testing::HasSubstr;
  EXPECT_THAT(message(x, x.reshape({4, 4, 3}), positions, table), HasSubstr("even head dim"));
  EXPECT_THAT(message(x, x.reshape({8, 6}), positions, table), HasSubstr("[T, H, E]"));
  EXPECT_THAT(message(x, {}, positions, table), HasSubstr("x must"));
  EXPECT_THAT(message(x.reshape({2, 4, 6}), x, positions, table),
              HasSubstr("rope: y must be f32 [4, 2, 6], got f32 [2, 4, 6]"));
  EXPECT_THAT(message(x, x, table, table), HasSubstr("positions must be i32 [4]"));
  const Tensor half = context().allocate({4, 1, 6}, DType::bf16, MemoryTag::scratch);
  const auto of_two = [&](const Tensor& second) {
    return test::error_of([&] {
      record_rope_of_two(b, {x, x}, {second, second}, positions, table, RopeLayout::half_split,
                         RopeDirection::forward);
    });
  };
  EXPECT_THAT(of_two(half), HasSubstr("both x must have the same type"));
  EXPECT_THAT(of_two(x.reshape({2, 4, 6})), HasSubstr("positions must be i32 [2]"));
  EXPECT_THAT(message(x, x, positions, {}), HasSubstr("table must be f32 [P, 3, 2], got nothing"));
  EXPECT_THAT(message(x, x, positions, table.reshape({kPositions, 2, 3})),
              HasSubstr("table must be f32 [50, 2, 2]"));
  const Tensor two_pairs = table.slice(0, {kPositions, 2, 2}, DType::f32);
  const Tensor other = x_of(c);
  EXPECT_THAT(message(other, x, positions, two_pairs),
              HasSubstr("a table of 2 pairs rotates a part of heads of dim 6, so y must be x"));
  EXPECT_EQ(b.commands(), 0U);
}

TEST(RopeReference, BackwardIsTheDerivativeOfForward) {
  const Case c(2, 2, 6);
  const std::vector<double> dy = test::to_double(test::random_values(c.x.size(), 5));
  for (const RopeLayout layout : {RopeLayout::half_split, RopeLayout::interleaved}) {
    const auto loss = [&](const std::vector<double>& x) {
      const std::vector<double> y = c.rotated(x, layout, 1);
      return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
    };
    test::expect_close(c.rotated(dy, layout, -1),
                       test::central_differences(loss, test::to_double(c.x)), 1e-8,
                       "analytic against numeric");
  }
}

}  // namespace
}  // namespace clora
