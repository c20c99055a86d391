#include "clora/ops/recurrent/short_conv.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <numeric>

#include "tests/reference/short_conv_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using reference::ShortConvProblem;
using test::Output;
using testing::HasSubstr;

// The first rows of documents of these lengths.
std::vector<std::int32_t> documents(const std::vector<int>& lengths) {
  std::vector<std::int32_t> first;
  for (const int length : lengths)
    first.insert(first.end(), static_cast<std::size_t>(length),
                 static_cast<std::int32_t>(first.size()));
  return first;
}

struct Case {
  ShortConvProblem p;
  std::vector<float> x, dy, taps, bias;
  DType type = DType::f32;

  Case(bool gated, std::size_t width, std::size_t channels, const std::vector<int>& lengths,
       bool has_bias = false, DType stored = DType::f32)
      : type(stored) {
    p = {.channels = channels,
         .width = width,
         .gated = gated,
         .taps = {},
         .bias = {},
         .first = documents(lengths)};
    x = test::stored_as(type, test::random_values(p.rows() * p.row_width(), 1, 2));
    dy = test::stored_as(type, test::random_values(p.rows() * channels, 2));
    taps = test::random_values(width * channels, 3);
    if (has_bias) bias = test::random_values(channels, 4);
    p.taps = test::to_double(taps);
    p.bias = test::to_double(bias);
  }
  std::int64_t rows() const { return static_cast<std::int64_t>(p.rows()); }
  std::int64_t channels() const { return static_cast<std::int64_t>(p.channels); }
  Shape x_shape() const { return {rows(), static_cast<std::int64_t>(p.row_width())}; }
  Shape y_shape() const { return {rows(), channels()}; }
  std::string text() const {
    return fmt::format("{}, {} taps, {}{}", p.gated ? "gated" : "silu", p.width, y_shape().text(),
                       bias.empty() ? "" : ", bias");
  }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const bool gated : {false, true}) {
    all.emplace_back(gated, 3, 1, std::vector{1});
    all.emplace_back(gated, 4, 7, std::vector{5, 1, 2, 9}, true);
    all.emplace_back(gated, 2, 63, std::vector{4, 3});
    all.emplace_back(gated, 3, 64, std::vector{1, 1, 11});
    all.emplace_back(gated, 8, 65, std::vector{3, 8, 9, 1});
    all.emplace_back(gated, 4, 260, std::vector{2, 30, 5}, true);
  }
  return all;
}

class ShortConvTest : public test::OpTest {
 protected:
  ShortConv conv_of(const Case& c) {
    const auto width = static_cast<std::int64_t>(c.p.width);
    return {.kind = c.p.gated ? ShortConvKind::gated : ShortConvKind::silu,
            .taps = test::upload(context(), {width, c.channels()}, c.taps),
            .bias = c.bias.empty() ? Tensor() : test::upload(context(), {c.channels()}, c.bias)};
  }
  Tensor up(const Case& c, Shape shape, std::vector<float> values) {
    return test::upload_as(context(), c.type, shape, values);
  }
  Tensor first_of(const Case& c) { return test::upload(context(), {c.rows()}, c.p.first); }
};
INSTANTIATE_TEST_SUITE_P(Variants, ShortConvTest, test::all_variants(), test::variant_name);

TEST_P(ShortConvTest, ForwardAndBackwardAgreeWithTheReferenceAndStayWithinDocuments) {
  for (const Case& c : cases()) {
    const Output y(context(), c.y_shape()), dx(context(), c.x_shape());
    run([&](Batch& b) {
      const Tensor x = up(c, c.x_shape(), c.x);
      record_short_conv(b, y.tensor(), x, conv_of(c), first_of(c));
      record_short_conv_backward(b, dx.tensor(), up(c, c.y_shape(), c.dy), x, conv_of(c),
                                 first_of(c));
    });
    const auto x = test::to_double(c.x), dy = test::to_double(c.dy);
    test::expect_close(y.values(), reference::short_conv(c.p, x), test::tolerance_of(8), c.text());
    test::expect_close(dx.values(), reference::short_conv_backward(c.p, dy, x),
                       test::tolerance_of(64), c.text() + " dx");
  }
}

TEST_P(ShortConvTest, BackwardOverwritesAndIsTheDerivativeByCentralDifferences) {
  for (const bool gated : {false, true}) {
    const Case c(gated, 3, 3, {4, 1, 2}, true);
    const Output dx(context(), c.x_shape());
    run([&](Batch& b) {
      for (int twice = 0; twice < 2; ++twice) {
        record_short_conv_backward(b, dx.tensor(), up(c, c.y_shape(), c.dy),
                                   up(c, c.x_shape(), c.x), conv_of(c), first_of(c));
      }
    });
    const auto dy = test::to_double(c.dy);
    const auto loss = [&](const std::vector<double>& x) {
      const auto y = reference::short_conv(c.p, x);
      return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
    };
    test::expect_close(dx.values(), test::central_differences(loss, test::to_double(c.x)), 1e-5,
                       c.text());
  }
}

TEST_P(ShortConvTest, SupportsHalves) {
  for (const DType type : {DType::bf16, DType::f16}) {
    for (const bool gated : {false, true}) {
      for (const std::size_t channels : {5U, 68U}) {
        const Case c(gated, 4, channels, {3, 6}, false, type);
        const Output y(context(), c.y_shape(), type), dx(context(), c.x_shape(), type);
        run([&](Batch& b) {
          const Tensor x = up(c, c.x_shape(), c.x);
          record_short_conv(b, y.tensor(), x, conv_of(c), first_of(c));
          record_short_conv_backward(b, dx.tensor(), up(c, c.y_shape(), c.dy), x, conv_of(c),
                                     first_of(c));
        });
        const auto x = test::to_double(c.x), dy = test::to_double(c.dy);
        const double tolerance = test::rounding_of(type) + test::tolerance_of(64);
        test::expect_close(y.values(), reference::short_conv(c.p, x), tolerance, c.text());
        test::expect_close(dx.values(), reference::short_conv_backward(c.p, dy, x), tolerance,
                           c.text() + " dx");
      }
    }
  }
}

// Calls of 5, 1, 1, and 4 rows, of which some are padding, continue a sequence; before it, the
// state holds another one.
TEST_P(ShortConvTest, WithAStateEqualsTheSequenceAtOnceFromPositionZeroOn) {
  for (const bool gated : {false, true}) {
    const Case c(gated, 4, 66, {9});
    const Tensor state =
        test::upload(context(), {3, 66}, std::vector<float>(std::size_t{3} * 66, NAN));
    const std::vector<double> want = reference::short_conv(c.p, test::to_double(c.x));
    const std::size_t row = c.p.row_width();
    std::int32_t at = 0;
    for (const auto& [rows, padding] : {std::pair{5, 3}, {1, 0}, {1, 0}, {2, 2}}) {
      std::vector<std::int32_t> positions(static_cast<std::size_t>(rows + padding), -1);
      std::iota(positions.begin(), positions.begin() + rows, at);
      std::vector<float> x(positions.size() * row, 7);
      std::copy_n(c.x.begin() + at * static_cast<std::ptrdiff_t>(row),
                  static_cast<std::size_t>(rows) * row, x.begin());
      const Output y(context(), {rows + padding, c.channels()});
      run([&](Batch& b) {
        record_short_conv_cached(b, y.tensor(), state, up(c, {rows + padding, c.x_shape()[1]}, x),
                                 conv_of(c), test::upload(context(), {rows + padding}, positions));
      });
      std::vector<double> expected(positions.size() * c.p.channels);
      std::copy_n(want.begin() + at * c.channels(), rows * c.channels(), expected.begin());
      test::expect_close(y.values(), expected, test::tolerance_of(8), c.text());
      at += rows;
    }
  }
}

TEST_P(ShortConvTest, RefusesTensorsThatDoNotFit) {
  const auto make = [&](Shape shape, DType type = DType::f32) {
    return context().allocate(shape, type, MemoryTag::scratch);
  };
  const Tensor x = make({6, 10}), y = make({6, 10}), first = make({6}, DType::i32);
  const auto error = [&](const Tensor& out, const Tensor& in, const ShortConv& conv,
                         const Tensor& of_rows) {
    return test::error_of([&] {
      Batch batch(context());
      record_short_conv(batch, out, in, conv, of_rows);
    });
  };
  const ShortConv conv{.taps = make({3, 10})};
  EXPECT_THAT(error(y, x, {}, first), HasSubstr("taps must be a matrix [W, C], got nothing"));
  EXPECT_THAT(error(y, x, {.taps = make({9, 10})}, first), HasSubstr("from 2 to 8 taps"));
  EXPECT_THAT(error(y, x, {.taps = make({1, 10})}, first), HasSubstr("got 1"));
  EXPECT_THAT(error(y, x, {.taps = make({3, 10}), .bias = make({9})}, first),
              HasSubstr("bias must be f32 [10]"));
  EXPECT_THAT(error(y, make({6, 9}), conv, first), HasSubstr("x must be f32 [6, 10]"));
  EXPECT_THAT(error(y, x, {.kind = ShortConvKind::gated, .taps = conv.taps}, first),
              HasSubstr("x must be f32 [6, 30]"));
  EXPECT_THAT(error(make({6, 10}, DType::bf16), x, conv, first), HasSubstr("y must be f32"));
  EXPECT_THAT(error(y, x, conv, make({5}, DType::i32)), HasSubstr("first must be i32 [6]"));
  EXPECT_THAT(error(x, x, conv, first), HasSubstr("y must not overlap x"));
  EXPECT_THAT(test::error_of([&] {
                Batch batch(context());
                record_short_conv_backward(batch, x, y, x, conv, first);
              }),
              HasSubstr("dx must overlap neither"));
  EXPECT_THAT(test::error_of([&] {
                Batch batch(context());
                record_short_conv_cached(batch, y, make({3, 10}), x, conv, first);
              }),
              HasSubstr("state must be f32 [2, 10]"));
}

}  // namespace
}  // namespace clora
