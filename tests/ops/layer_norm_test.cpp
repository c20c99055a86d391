#include "clora/ops/rowwise/layer_norm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/reference/layer_norm_reference.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/row_cases.hpp"

namespace clora {
namespace {

using test::Output;

struct Case {
  std::vector<float> x, w, bias, dy, residual;
  Shape shape;
  // In a row of few columns, differences and the terms of the gradient cancel to a multiple of
  // epsilon. With a large epsilon the remaining value is still comparable.
  float epsilon;

  Case(std::int64_t rows, std::int64_t width)
      : shape{rows, width}, epsilon(width < 4 ? 0.5F : 1e-5F) {
    const auto n = static_cast<std::size_t>(rows * width);
    x = test::random_values(n, 1, 3);
    w = test::random_values(static_cast<std::size_t>(width), 2);
    bias = test::random_values(static_cast<std::size_t>(width), 5);
    dy = test::random_values(n, 3);
    residual = test::random_values(n, 4);
  }
  std::vector<double> forward() const {
    return reference::layer_norm(test::to_double(x), test::to_double(w), test::to_double(bias),
                                 epsilon);
  }
  std::vector<double> backward() const {
    return reference::layer_norm_backward(test::to_double(dy), test::to_double(x),
                                          test::to_double(w), epsilon);
  }
  std::vector<double> backward_and(double times, const std::vector<float>& added) const {
    std::vector<double> sum = backward();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = times * sum[i] + added[i];
    return sum;
  }
  double tolerance() const { return test::tolerance_of(w.size()); }
};

// Rows and widths around the cpu variant's 16 and 32 lanes and 8 groups, the portable variant's
// groups of 32 to 256, and those of real models (a head of Qwen3, SmolLM2, TinyStories).
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t width : {1, 2, 7, 15, 16, 17, 31, 32, 33, 49, 255, 256, 257, 1031}) {
    all.emplace_back(3, width);
  }
  all.emplace_back(1, 576);
  all.emplace_back(13, 576);
  all.emplace_back(257, 128);
  std::erase_if(all, [](const Case& c) { return !test::affords(c.shape.elements()); });
  return all;
}

class LayerNorm : public test::OpTest {
 protected:
  Tensor up(const Shape& shape, const std::vector<float>& values) {
    return test::upload(context(), shape, values);
  }
  Tensor up_w(const Case& c) { return up({c.shape.last()}, c.w); }
  Tensor up_bias(const Case& c) { return up({c.shape.last()}, c.bias); }
};
INSTANTIATE_TEST_SUITE_P(Variants, LayerNorm, test::all_variants(), test::variant_name);

TEST_P(LayerNorm, ForwardAgreesWithTheReference) {
  for (const Case& c : cases()) {
    const Output y(context(), c.shape);
    run([&](Batch& b) {
      record_layer_norm(b, y.tensor(), up(c.shape, c.x), up_w(c), up_bias(c), c.epsilon);
    });
    test::expect_close(y.values(), c.forward(), c.tolerance(), c.shape.text());
  }
}

TEST_P(LayerNorm, ForwardNormsInPlaceAndTheLastOfThreeDimensions) {
  const Case c(15, 24);
  const Tensor x = up({5, 3, 24}, c.x);
  run([&](Batch& b) { record_layer_norm(b, x, x, up_w(c), up_bias(c), c.epsilon); });
  test::expect_close(context().read<float>(x), c.forward(), c.tolerance(), "in place");
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
  test::expect_close(y.values(), c.forward(), 1e-4, "mean 1000");
}

TEST_P(LayerNorm, BackwardAgreesWithTheReferenceWithAndWithoutResidual) {
  for (const Case& c : cases()) {
    if (c.w.size() == 1) continue;  // 0 up to rounding; tested below
    const Output plain(context(), c.shape);
    const Output added(context(), c.shape);
    const Tensor dy = up(c.shape, c.dy);
    const Tensor x = up(c.shape, c.x);
    run([&](Batch& b) {
      record_layer_norm_backward(b, plain.tensor(), dy, x, up_w(c), {}, c.epsilon);
      record_layer_norm_backward(b, added.tensor(), dy, x, up_w(c), up(c.shape, c.residual),
                                 c.epsilon);
    });
    test::expect_close(plain.values(), c.backward(), c.tolerance(), c.shape.text());
    test::expect_close(added.values(), c.backward_and(1, c.residual), c.tolerance(),
                       c.shape.text() + " with residual");
  }
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
  const Case c(9, 100);
  const Tensor x = up(c.shape, c.x);
  const Tensor dy = up(c.shape, c.dy);
  const Tensor sum = up(c.shape, c.residual);
  run([&](Batch& b) {
    record_layer_norm_backward(b, sum, dy, x, up_w(c), sum, c.epsilon);
    record_layer_norm_backward(b, sum, dy, x, up_w(c), sum, c.epsilon);
    record_layer_norm_backward(b, dy, dy, x, up_w(c), {}, c.epsilon);
  });
  test::expect_close(context().read<float>(sum), c.backward_and(2, c.residual), c.tolerance(),
                     "two calls with dx as residual");
  test::expect_close(context().read<float>(dy), c.backward(), c.tolerance(), "dx as dy");
}

TEST_P(LayerNorm, ForwardTakesEitherTypeOfXAndY) {
  for (Case c : test::vec_size_cases<Case>()) {
    for (const DType x_type : test::kActivationTypes) {
      const Tensor x = test::upload_as(context(), x_type, c.shape, c.x);
      for (const DType y_type : test::kActivationTypes) {
        const Output y(context(), c.shape, y_type);
        run([&](Batch& b) {
          record_layer_norm(b, y.tensor(), x, up({c.shape.last()}, c.w),
                            up({c.shape.last()}, c.bias), c.epsilon);
        });
        test::expect_close(y.values(), c.forward(), c.tolerance() + test::rounding_of(y_type),
                           x.text() + " to " + y.tensor().text());
      }
    }
  }
}

TEST_P(LayerNorm, BackwardTakesEitherTypeOfEachTensor) {
  for (const Case& whole : test::vec_size_cases<Case>()) {
    for (const unsigned types : {1U, 2U, 4U, 7U}) {
      Case c = whole;
      const Tensor x = test::upload_as(context(), test::kActivationTypes[types & 1U], c.shape, c.x);
      const Tensor dy =
          test::upload_as(context(), test::kActivationTypes[types >> 1U & 1U], c.shape, c.dy);
      const DType dx_type = test::kActivationTypes[types >> 2U];
      const Tensor residual = test::upload_as(context(), dx_type, c.shape, c.residual);
      const Output dx(context(), c.shape, dx_type);
      run([&](Batch& b) {
        record_layer_norm_backward(b, dx.tensor(), dy, x, up({c.shape.last()}, c.w), residual,
                                   c.epsilon);
      });
      test::expect_close(dx.values(), c.backward_and(1, c.residual),
                         c.tolerance() + test::rounding_of(dx_type),
                         x.text() + ", " + dy.text() + " to " + dx.tensor().text());
    }
  }
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
  test::expect_close(c.backward(), test::central_differences(loss, test::to_double(c.x)), 1e-8,
                     "analytic against numeric");
}

}  // namespace
}  // namespace clora
