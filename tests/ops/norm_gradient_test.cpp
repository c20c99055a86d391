#include "clora/ops/rowwise/norm_gradient.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "clora/ops/rowwise/layer_norm.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"
#include "tests/reference/rms_norm_reference.hpp"
#include "tests/support/norm_test.hpp"
#include "tests/support/row_cases.hpp"

namespace clora {
namespace {

using Case = test::NormCase;

// The normalised rows, before the weight.
std::vector<double> normed(const Case& c, bool is_layer_norm) {
  std::vector<double> x = test::to_double(c.x);
  const std::size_t width = c.w.size();
  for (std::size_t row = 0; row < x.size(); row += width) {
    const std::span of_row(x.data() + row, width);
    double mean = 0;
    for (const double v : of_row) mean += v / static_cast<double>(width);
    for (double& v : of_row) v -= is_layer_norm ? mean : 0;
    const double scale = reference::rms_norm_scale(of_row, static_cast<double>(c.epsilon));
    for (double& v : of_row) v *= scale;
  }
  return x;
}

// sum_t dy[t] f[t]
std::vector<double> column_sums(const Case& c, const std::vector<double>& f) {
  std::vector<double> sums(c.w.size());
  for (std::size_t i = 0; i < f.size(); ++i) {
    sums[i % sums.size()] += static_cast<double>(c.dy[i]) * f[i];
  }
  return sums;
}

std::vector<double> ones(const Case& c) { return std::vector<double>(c.x.size(), 1.0); }

// `times` gradients with the factor, added to w.
std::vector<double> added(const Case& c, std::vector<double> gradient, double times) {
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = static_cast<double>(c.w[i]) + times * gradient[i];
  }
  return gradient;
}

// The sums of rows may cancel, and their error is relative to the terms.
double tolerance(const Case& c) {
  return 4 * test::tolerance_of(c.x.size()) * std::sqrt(static_cast<double>(c.shape.rows()));
}

class NormGradient : public test::OpTest {
 protected:
  Tensor up(const Shape& shape, const std::vector<float>& values) {
    return test::upload(context(), shape, values);
  }
  Tensor up_w(const Case& c) { return up({c.shape.last()}, c.w); }
};
INSTANTIATE_TEST_SUITE_P(Variants, NormGradient, test::all_variants(), test::variant_name);

std::vector<Case> cases() {
  std::vector<Case> all = test::norm_cases();
  all.emplace_back(700, 24);  // more than one chunk on a GPU
  all.emplace_back(1, 8);
  return all;
}

TEST_P(NormGradient, OfTheWeightOfRmsNormAgreesWithTheReference) {
  for (const Case& c : cases()) {
    const Tensor dw = up_w(c);
    run([&](Batch& b) {
      record_norm_gradient(b, {.dw = dw}, up(c.shape, c.dy), up(c.shape, c.x), c.epsilon);
    });
    test::expect_close(context().read<float>(dw), added(c, column_sums(c, normed(c, false)), 1),
                       tolerance(c), c.shape.text());
  }
}

TEST_P(NormGradient, OfTheWeightAndBiasOfLayerNormAgreeWithTheReference) {
  for (const Case& c : cases()) {
    const Tensor dw = up_w(c), dbias = up_w(c);
    run([&](Batch& b) {
      record_norm_gradient(b, {dw, dbias, 0.5F}, up(c.shape, c.dy), up(c.shape, c.x), c.epsilon);
    });
    test::expect_close(context().read<float>(dw), added(c, column_sums(c, normed(c, true)), 0.5),
                       tolerance(c), c.shape.text() + " w");
    test::expect_close(context().read<float>(dbias), added(c, column_sums(c, ones(c)), 0.5),
                       tolerance(c), c.shape.text() + " bias");
  }
}

TEST_P(NormGradient, OfTheBiasAloneIsThatNextToTheWeight) {
  const Case c(257, 100);
  const Tensor x = up(c.shape, c.x), dy = up(c.shape, c.dy);
  const Tensor dw = up_w(c), dbias = up_w(c), alone = up_w(c);
  run([&](Batch& b) {
    record_norm_gradient(b, {dw, dbias, 0.5F}, dy, x, c.epsilon);
    record_norm_gradient(b, {.dbias = alone, .factor = 0.5F}, dy, x, c.epsilon);
  });
  EXPECT_EQ(context().read<float>(alone), context().read<float>(dbias));
}

TEST_P(NormGradient, AccumulatesAndGivesTheSameBitsEachRun) {
  const Case c(257, 100);
  const Tensor x = up(c.shape, c.x), dy = up(c.shape, c.dy);
  const std::vector<float> zeros(c.w.size());
  std::vector<std::vector<float>> results;
  for (int i = 0; i < 3; ++i) {
    const Tensor once = up({c.shape.last()}, zeros), twice = up_w(c);
    run([&](Batch& b) {
      record_norm_gradient(b, {.dw = once}, dy, x, c.epsilon);
      record_norm_gradient(b, {.dw = twice}, dy, x, c.epsilon);
      record_norm_gradient(b, {.dw = twice}, dy, x, c.epsilon);
    });
    results.push_back(context().read<float>(once));
    test::expect_close(context().read<float>(twice), added(c, column_sums(c, normed(c, false)), 2),
                       tolerance(c), "two calls");
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

TEST_P(NormGradient, TakesEitherTypeOfEachTensorAndThreeDimensions) {
  constexpr std::pair<DType, DType> kTypes[] = {{DType::f32, DType::bf16},
                                                {DType::bf16, DType::f32},
                                                {DType::bf16, DType::bf16},
                                                {DType::f16, DType::f16}};
  for (const Case& whole : test::vec_size_cases<Case>()) {
    for (const auto& [x_type, dy_type] : kTypes) {
      Case c = whole;
      const Shape three{c.shape[0], 1, c.shape[1]};
      const Tensor x = test::upload_as(context(), x_type, c.shape, c.x).reshape(three);
      const Tensor dy = test::upload_as(context(), dy_type, c.shape, c.dy).reshape(three);
      const Tensor dw = up_w(c);
      run([&](Batch& b) { record_norm_gradient(b, {.dw = dw}, dy, x, c.epsilon); });
      test::expect_close(context().read<float>(dw), added(c, column_sums(c, normed(c, false)), 1),
                         tolerance(c), x.text() + " and " + dy.text());
    }
  }
}

// The loss sum(dy * norm(x)) is linear in w and bias: its derivative along a direction v of both is
// the difference of two losses, and the gradient's product with v.
TEST_P(NormGradient, IsTheDerivativeOfTheForward) {
  const Case c(37, 48);
  const auto v = test::random_values(c.w.size(), 5);
  for (const bool is_layer_norm : {false, true}) {
    const auto loss_at = [&](float h) {
      std::vector<float> w = c.w, bias = c.bias;
      for (std::size_t i = 0; i < w.size(); ++i) {
        w[i] += h * v[i];
        bias[i] += h * v[i];
      }
      const test::Output y(context(), c.shape);
      run([&](Batch& b) {
        const Tensor x = up(c.shape, c.x), up_w = up({c.shape.last()}, w);
        if (is_layer_norm) {
          record_layer_norm(b, y.tensor(), x, up_w, up({c.shape.last()}, bias), c.epsilon);
        } else {
          record_rms_norm(b, y.tensor(), x, up_w, c.epsilon);
        }
      });
      double loss = 0;
      const std::vector<float> values = y.values();
      for (std::size_t i = 0; i < values.size(); ++i) {
        loss += static_cast<double>(values[i]) * static_cast<double>(c.dy[i]);
      }
      return loss;
    };
    const std::vector<float> zeros(c.w.size());
    const Tensor dw = up({c.shape.last()}, zeros);
    const Tensor dbias = is_layer_norm ? up({c.shape.last()}, zeros) : Tensor();
    run([&](Batch& b) {
      record_norm_gradient(b, {dw, dbias}, up(c.shape, c.dy), up(c.shape, c.x), c.epsilon);
    });
    double along = 0;
    for (const Tensor& d : {dw, dbias}) {
      if (d.empty()) continue;
      const std::vector<float> values = context().read<float>(d);
      for (std::size_t i = 0; i < v.size(); ++i) {
        along += static_cast<double>(values[i]) * static_cast<double>(v[i]);
      }
    }
    const double difference = (loss_at(0.25F) - loss_at(-0.25F)) / 0.5;
    EXPECT_NEAR(along, difference, 1e-4 * (std::abs(difference) + 1)) << is_layer_norm;
  }
}

TEST_P(NormGradient, RefusesTensorsThatDoNotMatch) {
  const Case c(4, 8);
  Batch b(context());
  const Tensor x = up(c.shape, c.x), dy = up(c.shape, c.dy), w = up_w(c);
  const Tensor wrong = up({2, 16}, c.x), wrong_w = up({4}, std::vector<float>(4));
  const auto message = [&](const NormGradients& d, const Tensor& of_dy, const Tensor& of_x) {
    return test::error_of([&] { record_norm_gradient(b, d, of_dy, of_x, c.epsilon); });
  };
  using testing::HasSubstr;
  EXPECT_THAT(message({.dw = wrong_w}, dy, x), HasSubstr("dw must be f32 [8], got f32 [4]"));
  EXPECT_THAT(message({w, wrong_w}, dy, x), HasSubstr("dbias must be f32 [8], got f32 [4]"));
  EXPECT_THAT(message({w, w}, dy, x), HasSubstr("dw must not overlap dbias"));
  EXPECT_THAT(message({}, dy, x), HasSubstr("dbias must be f32 [8]"));
  EXPECT_THAT(message({.dw = w}, wrong, x), HasSubstr("dy must"));
  EXPECT_THAT(message({.dw = w}, dy, {}), HasSubstr("x must"));
  EXPECT_THAT(message({.dw = w, .factor = NAN}, dy, x), HasSubstr("factor must be finite"));
  EXPECT_THAT(message({.dw = x.rows(0, 1).reshape({8})}, dy, x),
              HasSubstr("dw must not overlap dy or x"));
}

}  // namespace
}  // namespace clora
