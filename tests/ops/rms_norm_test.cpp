#include "clora/ops/rowwise/rms_norm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/reference/rms_norm_reference.hpp"
#include "tests/support/norm_test.hpp"
#include "tests/support/row_cases.hpp"

namespace clora {
namespace {

using test::Output;
using Case = test::NormCase;

std::vector<double> forward_of(const Case& c) {
  return reference::rms_norm(test::to_double(c.x), test::to_double(c.w), c.epsilon);
}

std::vector<double> backward_of(const Case& c) {
  return reference::rms_norm_backward(test::to_double(c.dy), test::to_double(c.x),
                                      test::to_double(c.w), c.epsilon);
}

class RmsNorm : public test::NormTest {
 protected:
  std::vector<double> forward(const Case& c) const override { return forward_of(c); }
  std::vector<double> backward(const Case& c) const override { return backward_of(c); }
  void record_forward(Batch& batch, const Tensor& y, const Tensor& x, const Case& c) override {
    record_rms_norm(batch, y, x, up_w(c), c.epsilon);
  }
  void record_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                       const Tensor& residual, const Case& c) override {
    record_rms_norm_backward(batch, dx, dy, x, up_w(c), residual, c.epsilon);
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, RmsNorm, test::all_variants(), test::variant_name);

TEST_P(RmsNorm, ForwardAgreesWithTheReference) { expect_forward_agrees(); }

TEST_P(RmsNorm, ForwardNormsInPlaceAndTheLastOfThreeDimensions) {
  expect_forward_in_place_over_the_last_of_three_dimensions();
}

// The sum of the addend and of 0.75 times the norm.
std::vector<double> added_of(const Case& c) {
  std::vector<double> sums = forward_of(c);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = double{c.residual[i]} + 0.75 * sums[i];
  return sums;
}

TEST_P(RmsNorm, ForwardAddsItsResultToAnotherTensor) {
  for (const Case& c : test::norm_cases()) {
    const Output y(context(), c.shape), in_place(context(), c.shape);
    run([&](Batch& b) {
      const Tensor x = up(c.shape, c.x), x0 = up(c.shape, c.residual), w = up_w(c);
      record_rms_norm(b, y.tensor(), x, w, c.epsilon, {x0, 0.75F});
      b.copy(in_place.tensor(), x0);
      record_rms_norm(b, in_place.tensor(), x, w, c.epsilon, {in_place.tensor(), 0.75F});
    });
    test::expect_close(y.values(), added_of(c), 2 * c.tolerance(), c.shape.text());
    EXPECT_EQ(in_place.values(), y.values()) << c.shape.text();
  }
}

// As in a residual stream of f32 with activations of halves, and the other way round.
TEST_P(RmsNorm, ForwardAddsTensorsOfEitherType) {
  for (Case c : test::vec_size_cases<Case>()) {
    for (const DType x_type : {DType::bf16, DType::f16, DType::f32}) {
      const DType other = x_type == DType::f32 ? DType::bf16 : DType::f32;
      const Output y(context(), c.shape, other);
      const Tensor x = test::upload_as(context(), x_type, c.shape, c.x);
      const Tensor x0 = test::upload_as(context(), other, c.shape, c.residual);
      run([&](Batch& b) { record_rms_norm(b, y.tensor(), x, up_w(c), c.epsilon, {x0, 0.75F}); });
      test::expect_close(y.values(), added_of(c), 2 * c.tolerance() + test::rounding_of(other),
                         c.shape.text() + " of " + x.text());
    }
  }
}

TEST_P(RmsNorm, EpsilonHoldsARowOfZeros) {
  const Output y(context(), {2, 20});
  const std::vector<float> zeros(40, 0.0F);
  const std::vector<float> ones(20, 1.0F);
  run([&](Batch& b) { record_rms_norm(b, y.tensor(), up({2, 20}, zeros), up({20}, ones), 1e-5F); });
  EXPECT_EQ(y.values(), zeros);
}

TEST_P(RmsNorm, BackwardAgreesWithTheReferenceWithAndWithoutResidual) {
  expect_backward_agrees(OneColumn::compared);
}

TEST_P(RmsNorm, BackwardAccumulatesIntoItsResidualAndOverwritesItsGradient) {
  expect_backward_accumulates_into_its_residual_and_overwrites_its_gradient();
}

TEST_P(RmsNorm, ForwardTakesEitherTypeOfXAndY) { expect_forward_takes_either_type_of_x_and_y(); }

TEST_P(RmsNorm, BackwardTakesEitherTypeOfEachTensor) {
  expect_backward_takes_either_type_of_each_tensor();
}

TEST_P(RmsNorm, NormsABf16TensorInPlace) {
  Case c(15, 24);
  const Tensor x = test::upload_as(context(), DType::bf16, c.shape, c.x);
  const Tensor dy = test::upload_as(context(), DType::bf16, c.shape, c.dy);
  const Output again(context(), c.shape, DType::bf16);
  run([&](Batch& b) {
    record_rms_norm_backward(b, dy, dy, x, up_w(c), {}, c.epsilon);
    b.copy(again.tensor(), dy);
  });
  test::expect_close(again.values(), backward(c), c.tolerance() + test::rounding_of(DType::bf16),
                     "dx as dy");
}

TEST_P(RmsNorm, ABf16GradientIsTheOtherOneRoundedToNearest) {
  for (const Case& c : test::vec_size_cases<Case>()) {
    const Output dx(context(), c.shape);
    const Output bf16(context(), c.shape, DType::bf16);
    const Tensor residual = up(c.shape, c.residual);
    run([&](Batch& b) {
      record_rms_norm_backward(b, dx.tensor(), up(c.shape, c.dy), up(c.shape, c.x), up_w(c),
                               residual, c.epsilon, {.dx_bf16 = bf16.tensor()});
    });
    test::expect_close(dx.values(), backward_and_residual(1, c), c.tolerance(), c.shape.text());
    EXPECT_EQ(test::to_double(bf16.values()), test::rounded_to_bf16(test::to_double(dx.values())))
        << c.shape.text();
  }
}

TEST_P(RmsNorm, BackwardAlsoRecomputesTheForwardsResultWithTheSameGradient) {
  for (const Case& c : test::norm_cases()) {
    const Output dx(context(), c.shape), plain(context(), c.shape), y(context(), c.shape);
    const Output added(context(), c.shape), y_of_added(context(), c.shape);
    run([&](Batch& b) {
      const Tensor dy = up(c.shape, c.dy), x = up(c.shape, c.x), w = up_w(c);
      record_rms_norm_backward(b, dx.tensor(), dy, x, w, {}, c.epsilon, {.y = y.tensor()});
      record_rms_norm_backward(b, plain.tensor(), dy, x, w, {}, c.epsilon);
      record_rms_norm_backward(b, added.tensor(), dy, x, w, up(c.shape, c.residual), c.epsilon,
                               {.y = y_of_added.tensor()});
    });
    test::expect_close(y.values(), forward(c), c.tolerance(), c.shape.text() + " y");
    EXPECT_EQ(y_of_added.values(), y.values()) << c.shape.text();
    EXPECT_EQ(dx.values(), plain.values()) << c.shape.text();
    test::expect_close(added.values(), backward_and_residual(1, c), c.tolerance(),
                       c.shape.text() + " with residual");
  }
}

// As in a training step: the gradient of the residual stream is updated in place and cast to bf16.
TEST_P(RmsNorm, BackwardRecomputesTheForwardsResultInEitherTypeWithABf16Gradient) {
  for (Case c : test::vec_size_cases<Case>()) {
    for (const unsigned types : {0U, 1U, 2U, 3U}) {
      const DType y_type = types & 1U ? DType::bf16 : DType::f32;
      const Tensor x =
          test::upload_as(context(), types >> 1U ? DType::bf16 : DType::f32, c.shape, c.x);
      const Output sum(context(), c.shape), y(context(), c.shape, y_type);
      const Output bf16(context(), c.shape, DType::bf16);
      run([&](Batch& b) {
        b.copy(sum.tensor(), up(c.shape, c.residual));
        record_rms_norm_backward(b, sum.tensor(), up(c.shape, c.dy), x, up_w(c), sum.tensor(),
                                 c.epsilon, {bf16.tensor(), y.tensor()});
      });
      const std::string what = x.text() + " to " + y.tensor().text();
      test::expect_close(y.values(), forward(c), c.tolerance() + test::rounding_of(y_type), what);
      test::expect_close(sum.values(), backward_and_residual(1, c), c.tolerance(), what);
      EXPECT_EQ(test::to_double(bf16.values()),
                test::rounded_to_bf16(test::to_double(sum.values())))
          << what;
    }
  }
}

TEST_P(RmsNorm, RefusesTensorsThatDoNotMatch) {
  const Case c(4, 8);
  Batch b(context());
  const Tensor x = up(c.shape, c.x);
  const Tensor w = up_w(c);
  const Tensor wrong = up({2, 16}, c.x);
  const Tensor wrong_w = up({4}, std::vector<float>(4));
  const auto message_of = [&](auto f) { return test::error_of(f); };
  using testing::HasSubstr;
  EXPECT_THAT(message_of([&] { record_rms_norm(b, x, x, wrong_w, c.epsilon); }),
              HasSubstr("rms_norm: w must be f32 [8], got f32 [4]"));
  EXPECT_THAT(message_of([&] { record_rms_norm(b, wrong, x, w, c.epsilon); }), HasSubstr("y must"));
  EXPECT_THAT(message_of([&] { record_rms_norm(b, x, {}, w, c.epsilon); }), HasSubstr("x must"));
  EXPECT_THAT(message_of([&] { record_rms_norm(b, x, x, w, c.epsilon, {wrong}); }),
              HasSubstr("x0 must be f32 [4, 8]"));
  EXPECT_THAT(message_of([&] {
                record_rms_norm(b, x, x, w, c.epsilon, {{}, 2});
              }),
              HasSubstr("the factor must be finite, and 1 without an addend, got 2"));
  EXPECT_THAT(message_of([&] { record_rms_norm_backward(b, wrong, x, x, w, {}, c.epsilon); }),
              HasSubstr("dx must"));
  EXPECT_THAT(message_of([&] { record_rms_norm_backward(b, x, wrong, x, w, {}, c.epsilon); }),
              HasSubstr("dy must"));
  EXPECT_THAT(message_of([&] { record_rms_norm_backward(b, x, x, x, w, wrong, c.epsilon); }),
              HasSubstr("residual must"));
  const Tensor half = context().allocate(c.shape, DType::bf16, MemoryTag::scratch);
  const Tensor half_of_x = x.slice(0, c.shape, DType::bf16);
  EXPECT_THAT(message_of([&] { record_rms_norm(b, half_of_x, x, w, c.epsilon); }),
              HasSubstr("y, bf16 [4, 8], must not overlap the input f32 [4, 8]"));
  EXPECT_THAT(message_of([&] { record_rms_norm_backward(b, half_of_x, x, half, w, {}, 1); }),
              HasSubstr("dx, bf16 [4, 8], must not overlap"));
  EXPECT_THAT(message_of([&] { record_rms_norm_backward(b, half, x, x, w, x, c.epsilon); }),
              HasSubstr("residual must be bf16 [4, 8]"));
  const auto also = [&](const RmsNormAlso& outputs) {
    return message_of([&] { record_rms_norm_backward(b, x, x, x, w, {}, 1, outputs); });
  };
  EXPECT_THAT(also({.dx_bf16 = wrong}), HasSubstr("dx_bf16 must be bf16 [4, 8]"));
  EXPECT_THAT(also({.dx_bf16 = half_of_x}), HasSubstr("dx_bf16 must not overlap"));
  EXPECT_THAT(also({.y = wrong}), HasSubstr("y must be f32 [4, 8]"));
  EXPECT_THAT(also({.y = half_of_x}), HasSubstr("y must not overlap"));
  EXPECT_THAT(also({.dx_bf16 = half, .y = half}), HasSubstr("y must not overlap"));
  EXPECT_EQ(b.commands(), 0U);
}

TEST(RmsNormReference, BackwardIsTheDerivativeOfForward) {
  const Case c(2, 11);
  const std::vector<double> w = test::to_double(c.w);
  const std::vector<double> dy = test::to_double(c.dy);
  const auto loss = [&](const std::vector<double>& x) {
    const std::vector<double> y = reference::rms_norm(x, w, c.epsilon);
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  };
  test::expect_close(backward_of(c), test::central_differences(loss, test::to_double(c.x)), 1e-8,
                     "analytic against numeric");
}

}  // namespace
}  // namespace clora
