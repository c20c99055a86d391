#include "clora/ops/rowwise/rms_norm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/reference/rms_norm_reference.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/row_cases.hpp"

namespace clora {
namespace {

using test::Output;

struct Case {
  std::vector<float> x, w, dy, residual;
  Shape shape;
  // In a row of few columns, the terms of the gradient cancel to a multiple of epsilon. With a
  // large epsilon the remaining value is still comparable.
  float epsilon;

  Case(std::int64_t rows, std::int64_t width)
      : shape{rows, width}, epsilon(width < 4 ? 0.5F : 1e-5F) {
    const auto n = static_cast<std::size_t>(rows * width);
    x = test::random_values(n, 1, 3);
    w = test::random_values(static_cast<std::size_t>(width), 2);
    dy = test::random_values(n, 3);
    residual = test::random_values(n, 4);
  }
  std::vector<double> forward() const {
    return reference::rms_norm(test::to_double(x), test::to_double(w), epsilon);
  }
  std::vector<double> backward() const {
    return reference::rms_norm_backward(test::to_double(dy), test::to_double(x), test::to_double(w),
                                        epsilon);
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

class RmsNorm : public test::OpTest {
 protected:
  Tensor up(const Shape& shape, const std::vector<float>& values) {
    return test::upload(context(), shape, values);
  }
  Tensor up_w(const Case& c) { return up({c.shape.last()}, c.w); }
};
INSTANTIATE_TEST_SUITE_P(Variants, RmsNorm, test::all_variants(), test::variant_name);

TEST_P(RmsNorm, ForwardAgreesWithTheReference) {
  for (const Case& c : cases()) {
    const Output y(context(), c.shape);
    run([&](Batch& b) { record_rms_norm(b, y.tensor(), up(c.shape, c.x), up_w(c), c.epsilon); });
    test::expect_close(y.values(), c.forward(), c.tolerance(), c.shape.text());
  }
}

TEST_P(RmsNorm, ForwardNormsInPlaceAndTheLastOfThreeDimensions) {
  const Case c(15, 24);
  const Tensor x = up({5, 3, 24}, c.x);
  run([&](Batch& b) { record_rms_norm(b, x, x, up_w(c), c.epsilon); });
  test::expect_close(context().read<float>(x), c.forward(), c.tolerance(), "in place");
}

TEST_P(RmsNorm, EpsilonHoldsARowOfZeros) {
  const Output y(context(), {2, 20});
  const std::vector<float> zeros(40, 0.0F);
  const std::vector<float> ones(20, 1.0F);
  run([&](Batch& b) { record_rms_norm(b, y.tensor(), up({2, 20}, zeros), up({20}, ones), 1e-5F); });
  EXPECT_EQ(y.values(), zeros);
}

TEST_P(RmsNorm, BackwardAgreesWithTheReferenceWithAndWithoutResidual) {
  for (const Case& c : cases()) {
    const Output plain(context(), c.shape);
    const Output added(context(), c.shape);
    const Tensor dy = up(c.shape, c.dy);
    const Tensor x = up(c.shape, c.x);
    run([&](Batch& b) {
      record_rms_norm_backward(b, plain.tensor(), dy, x, up_w(c), {}, c.epsilon);
      record_rms_norm_backward(b, added.tensor(), dy, x, up_w(c), up(c.shape, c.residual),
                               c.epsilon);
    });
    test::expect_close(plain.values(), c.backward(), c.tolerance(), c.shape.text());
    test::expect_close(added.values(), c.backward_and(1, c.residual), c.tolerance(),
                       c.shape.text() + " with residual");
  }
}

TEST_P(RmsNorm, BackwardAccumulatesIntoItsResidualAndOverwritesItsGradient) {
  const Case c(9, 100);
  const Tensor x = up(c.shape, c.x);
  const Tensor dy = up(c.shape, c.dy);
  const Tensor sum = up(c.shape, c.residual);
  run([&](Batch& b) {
    record_rms_norm_backward(b, sum, dy, x, up_w(c), sum, c.epsilon);
    record_rms_norm_backward(b, sum, dy, x, up_w(c), sum, c.epsilon);
    record_rms_norm_backward(b, dy, dy, x, up_w(c), {}, c.epsilon);
  });
  test::expect_close(context().read<float>(sum), c.backward_and(2, c.residual), c.tolerance(),
                     "two calls with dx as residual");
  test::expect_close(context().read<float>(dy), c.backward(), c.tolerance(), "dx as dy");
}

TEST_P(RmsNorm, ForwardTakesEitherTypeOfXAndY) {
  for (Case c : test::vec_size_cases<Case>()) {
    for (const DType x_type : test::kActivationTypes) {
      const Tensor x = test::upload_as(context(), x_type, c.shape, c.x);
      for (const DType y_type : test::kActivationTypes) {
        const Output y(context(), c.shape, y_type);
        run([&](Batch& b) { record_rms_norm(b, y.tensor(), x, up_w(c), c.epsilon); });
        test::expect_close(y.values(), c.forward(), c.tolerance() + test::rounding_of(y_type),
                           x.text() + " to " + y.tensor().text());
      }
    }
  }
}

TEST_P(RmsNorm, BackwardTakesEitherTypeOfEachTensor) {
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
        record_rms_norm_backward(b, dx.tensor(), dy, x, up_w(c), residual, c.epsilon);
      });
      test::expect_close(dx.values(), c.backward_and(1, c.residual),
                         c.tolerance() + test::rounding_of(dx_type),
                         x.text() + ", " + dy.text() + " to " + dx.tensor().text());
    }
  }
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
  test::expect_close(again.values(), c.backward(), c.tolerance() + test::rounding_of(DType::bf16),
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
    test::expect_close(dx.values(), c.backward_and(1, c.residual), c.tolerance(), c.shape.text());
    EXPECT_EQ(test::to_double(bf16.values()), test::rounded_to_bf16(test::to_double(dx.values())))
        << c.shape.text();
  }
}

TEST_P(RmsNorm, BackwardAlsoRecomputesTheForwardsResultWithTheSameGradient) {
  for (const Case& c : cases()) {
    const Output dx(context(), c.shape), plain(context(), c.shape), y(context(), c.shape);
    const Output added(context(), c.shape), y_of_added(context(), c.shape);
    run([&](Batch& b) {
      const Tensor dy = up(c.shape, c.dy), x = up(c.shape, c.x), w = up_w(c);
      record_rms_norm_backward(b, dx.tensor(), dy, x, w, {}, c.epsilon, {.y = y.tensor()});
      record_rms_norm_backward(b, plain.tensor(), dy, x, w, {}, c.epsilon);
      record_rms_norm_backward(b, added.tensor(), dy, x, w, up(c.shape, c.residual), c.epsilon,
                               {.y = y_of_added.tensor()});
    });
    test::expect_close(y.values(), c.forward(), c.tolerance(), c.shape.text() + " y");
    EXPECT_EQ(y_of_added.values(), y.values()) << c.shape.text();
    EXPECT_EQ(dx.values(), plain.values()) << c.shape.text();
    test::expect_close(added.values(), c.backward_and(1, c.residual), c.tolerance(),
                       c.shape.text() + " with residual");
  }
}

// As in a training step: the gradient of the residual stream is updated in place and cast to bf16.
TEST_P(RmsNorm, BackwardRecomputesTheForwardsResultInEitherTypeWithABf16Gradient) {
  for (Case c : test::vec_size_cases<Case>()) {
    for (const unsigned types : {0U, 1U, 2U, 3U}) {
      const DType y_type = test::kActivationTypes[types & 1U];
      const Tensor x =
          test::upload_as(context(), test::kActivationTypes[types >> 1U], c.shape, c.x);
      const Output sum(context(), c.shape), y(context(), c.shape, y_type);
      const Output bf16(context(), c.shape, DType::bf16);
      run([&](Batch& b) {
        b.copy(sum.tensor(), up(c.shape, c.residual));
        record_rms_norm_backward(b, sum.tensor(), up(c.shape, c.dy), x, up_w(c), sum.tensor(),
                                 c.epsilon, {bf16.tensor(), y.tensor()});
      });
      const std::string what = x.text() + " to " + y.tensor().text();
      test::expect_close(y.values(), c.forward(), c.tolerance() + test::rounding_of(y_type), what);
      test::expect_close(sum.values(), c.backward_and(1, c.residual), c.tolerance(), what);
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
  test::expect_close(c.backward(), test::central_differences(loss, test::to_double(c.x)), 1e-8,
                     "analytic against numeric");
}

}  // namespace
}  // namespace clora
