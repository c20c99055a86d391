#include "clora/ops/rowwise/layer_norm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/reference/layer_norm_reference.hpp"
#include "tests/support/norm_test.hpp"

namespace clora {
namespace {

using test::Output;
using Case = test::NormCase;

std::vector<double> forward_of(const Case& c) {
  return reference::layer_norm(test::to_double(c.x), test::to_double(c.w), test::to_double(c.bias),
                               c.epsilon);
}

std::vector<double> backward_of(const Case& c) {
  return reference::layer_norm_backward(test::to_double(c.dy), test::to_double(c.x),
                                        test::to_double(c.w), c.epsilon);
}

class LayerNorm : public test::NormTest {
 protected:
  std::vector<double> forward(const Case& c) const override { return forward_of(c); }
  std::vector<double> backward(const Case& c) const override { return backward_of(c); }
  void record_forward(Batch& batch, const Tensor& y, const Tensor& x, const Case& c) override {
    record_layer_norm(batch, y, x, up_w(c), up_bias(c), c.epsilon);
  }
  void record_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                       const Tensor& residual, const Case& c) override {
    record_layer_norm_backward(batch, dx, dy, x, up_w(c), residual, c.epsilon);
  }
  Tensor up_bias(const Case& c) { return up({c.shape.last()}, c.bias); }
};
INSTANTIATE_TEST_SUITE_P(Variants, LayerNorm, test::all_variants(), test::variant_name);

TEST_P(LayerNorm, ForwardAgreesWithTheReference) { expect_forward_agrees(); }

TEST_P(LayerNorm, ForwardNormsInPlaceAndTheLastOfThreeDimensions) {
  expect_forward_in_place_over_the_last_of_three_dimensions();
}

TEST_P(LayerNorm, ARowOfEqualValuesGivesTheBias) {
  const Case c(2, 20);
  const Output y(context(), c.shape);
  const std::vector<float> equal(40, 3.0F);
  run([&](Batch& b) {
    record_layer_norm(b, y.tensor(), up(c.shape, equal), up_w(c), up_bias(c), c.epsilon);
  });
  std::vector<float> want = c.bias;
  want.insert(want.end(), c.bias.begin(), c.bias.end());
  EXPECT_EQ(y.values(), want);
}

TEST_P(LayerNorm, AMeanFarAboveTheSpreadCostsNoDigitsOfTheVariance) {
  Case c(3, 577);
  for (float& v : c.x) v = 1000 + std::round(v * 256) / 256;  // exact in float
  const Output y(context(), c.shape);
  run([&](Batch& b) {
    record_layer_norm(b, y.tensor(), up(c.shape, c.x), up_w(c), up_bias(c), c.epsilon);
  });
  // The mean itself rounds to 2^-15 of a spread near 1. mean(x^2) - mean(x)^2 would have an error
  // of 1e-1.
  test::expect_close(y.values(), forward(c), 1e-4, "mean 1000");
}

TEST_P(LayerNorm, BackwardAgreesWithTheReferenceWithAndWithoutResidual) {
  expect_backward_agrees(OneColumn::left_out);  // tested below
}

TEST_P(LayerNorm, BackwardOfOneColumnIsTheResidual) {
  const Case c(3, 1);
  const Output dx(context(), c.shape);
  run([&](Batch& b) {
    record_layer_norm_backward(b, dx.tensor(), up(c.shape, c.dy), up(c.shape, c.x), up_w(c),
                               up(c.shape, c.residual), c.epsilon);
  });
  test::expect_close(dx.values(), test::to_double(c.residual), c.tolerance(), "one column");
}

TEST_P(LayerNorm, BackwardAccumulatesIntoItsResidualAndOverwritesItsGradient) {
  expect_backward_accumulates_into_its_residual_and_overwrites_its_gradient();
}

TEST_P(LayerNorm, ForwardTakesEitherTypeOfXAndY) { expect_forward_takes_either_type_of_x_and_y(); }

TEST_P(LayerNorm, BackwardTakesEitherTypeOfEachTensor) {
  expect_backward_takes_either_type_of_each_tensor();
}

TEST_P(LayerNorm, RefusesTensorsThatDoNotMatch) {
  const Case c(4, 8);
  Batch b(context());
  const Tensor x = up(c.shape, c.x);
  const Tensor w = up_w(c);
  const Tensor wrong = up({2, 16}, c.x);
  const Tensor wrong_w = up({4}, std::vector<float>(4));
  const auto message_of = [&](auto f) { return test::error_of(f); };
  using testing::HasSubstr;
  const auto forward = [&](const Tensor& y, const Tensor& in, const Tensor& by, const Tensor& add) {
    return test::error_of([&] { record_layer_norm(b, y, in, by, add, c.epsilon); });
  };
  EXPECT_THAT(forward(x, x, wrong_w, w), HasSubstr("layer_norm: w must be f32 [8], got f32 [4]"));
  EXPECT_THAT(forward(x, x, w, wrong_w), HasSubstr("bias must"));
  EXPECT_THAT(forward(wrong, x, w, w), HasSubstr("y must"));
  EXPECT_THAT(forward(x, {}, w, w), HasSubstr("x must"));
  EXPECT_THAT(message_of([&] { record_layer_norm_backward(b, wrong, x, x, w, {}, c.epsilon); }),
              HasSubstr("dx must"));
  EXPECT_THAT(message_of([&] { record_layer_norm_backward(b, x, wrong, x, w, {}, c.epsilon); }),
              HasSubstr("dy must"));
  EXPECT_THAT(message_of([&] { record_layer_norm_backward(b, x, x, x, w, wrong, c.epsilon); }),
              HasSubstr("residual must"));
  EXPECT_EQ(b.commands(), 0U);
}

TEST(LayerNormReference, BackwardIsTheDerivativeOfForward) {
  const Case c(2, 11);
  const std::vector<double> w = test::to_double(c.w);
  const std::vector<double> dy = test::to_double(c.dy);
  const auto loss = [&](const std::vector<double>& x) {
    const std::vector<double> y = reference::layer_norm(x, w, test::to_double(c.bias), c.epsilon);
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  };
  test::expect_close(backward_of(c), test::central_differences(loss, test::to_double(c.x)), 1e-8,
                     "analytic against numeric");
}

}  // namespace
}  // namespace clora
