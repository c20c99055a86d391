#include "clora/ops/rowwise/softmax.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/reference/softmax_reference.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/row_cases.hpp"

namespace clora {
namespace {

using test::Output;

struct Case {
  std::vector<float> x, dy;
  Shape shape;

  Case(std::int64_t rows, std::int64_t width) : shape{rows, width} {
    const auto n = static_cast<std::size_t>(rows * width);
    x = test::random_values(n, 1, 3);
    dy = test::random_values(n, 2);
  }
  std::size_t width() const { return static_cast<std::size_t>(shape.last()); }
  std::vector<double> forward() const { return reference::softmax(test::to_double(x), width()); }
  // The forward's output as float, which is the input of the backward.
  std::vector<float> y() const {
    const std::vector<double> exact = forward();
    return {exact.begin(), exact.end()};
  }
  std::vector<double> backward() const {
    return reference::softmax_backward(test::to_double(dy), test::to_double(y()), width());
  }
  double tolerance() const { return test::tolerance_of(width()); }
};

// Rows and widths around the cpu variant's 16 and 32 lanes and 8 groups and the portable variant's
// groups of 64 and 256, and the width of a vocabulary.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t width : {1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 65, 255, 256, 257, 1031}) {
    all.emplace_back(3, width);
  }
  all.emplace_back(1, 512);
  all.emplace_back(13, 512);
  all.emplace_back(67, 128);
  all.emplace_back(2, 49152);
  std::erase_if(all, [](const Case& c) { return !test::affords(c.shape.elements()); });
  return all;
}

class Softmax : public test::OpTest {
 protected:
  Tensor up(const Shape& shape, const std::vector<float>& values) {
    return test::upload(context(), shape, values);
  }
  std::vector<float> softmax_of(const std::vector<float>& row) {
    const Shape shape{1, static_cast<std::int64_t>(row.size())};
    const Output y(context(), shape);
    run([&](Batch& b) { record_softmax(b, y.tensor(), up(shape, row)); });
    return y.values();
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Softmax, test::all_variants(), test::variant_name);

TEST_P(Softmax, ForwardAgreesWithTheReference) {
  for (const Case& c : cases()) {
    const Output y(context(), c.shape);
    run([&](Batch& b) { record_softmax(b, y.tensor(), up(c.shape, c.x)); });
    test::expect_close(y.values(), c.forward(), c.tolerance(), c.shape.text());
  }
}

TEST_P(Softmax, ForwardWorksInPlaceAndOnTheLastOfThreeDimensions) {
  const Case c(15, 40);
  const Tensor x = up({5, 3, 40}, c.x);
  run([&](Batch& b) { record_softmax(b, x, x); });
  test::expect_close(context().read<float>(x), c.forward(), c.tolerance(), "in place");
}

TEST_P(Softmax, LargeAndMaskedInputsNeitherOverflowNorVanish) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const std::size_t width : {3U, 16U, 19U, 40U}) {
    std::vector<float> row(width, -inf);
    row[0] = 1e30F;
    row[width - 1] = 1e30F;
    std::vector<float> want(width, 0.0F);
    want[0] = want[width - 1] = 0.5F;
    EXPECT_EQ(softmax_of(row), want) << width;
    EXPECT_EQ(softmax_of(std::vector<float>(width, -3e38F))[1], 1.0F / static_cast<float>(width));
  }
}

TEST_P(Softmax, TheLargestIsFoundInEveryColumn) {
  constexpr std::size_t kWidth = 87;
  for (std::size_t at = 0; at + 1 < kWidth; ++at) {
    std::vector<float> row(kWidth, -100.0F);
    row[at] = 300.0F;  // exp overflows, saturated or not, unless this maximum is subtracted
    row[at + 1] = 299.0F;
    const std::vector<float> y = softmax_of(row);
    EXPECT_NEAR(y[at], 1 / (1 + std::exp(-1.0)), 1e-6) << at;
    EXPECT_NEAR(y[at + 1], 1 / (1 + std::exp(1.0)), 1e-6) << at;
  }
}

TEST_P(Softmax, ANanAnywhereMakesTheFullRowNan) {
  for (const std::size_t at : {0U, 5U, 17U, 35U}) {
    std::vector<float> row = test::random_values(36, 1);
    row[at] = std::numeric_limits<float>::quiet_NaN();
    for (const float v : softmax_of(row)) EXPECT_TRUE(std::isnan(v)) << at;
  }
}

TEST_P(Softmax, BackwardAgreesWithTheReference) {
  for (const Case& c : cases()) {
    if (c.width() == 1) continue;  // exactly 0; tested below
    const Output dx(context(), c.shape);
    run([&](Batch& b) {
      record_softmax_backward(b, dx.tensor(), up(c.shape, c.dy), up(c.shape, c.y()));
    });
    test::expect_close(dx.values(), c.backward(), c.tolerance(), c.shape.text());
  }
}

TEST_P(Softmax, BackwardOfOneColumnIsZero) {
  const Output dx(context(), {3, 1});
  run([&](Batch& b) {
    record_softmax_backward(b, dx.tensor(), up({3, 1}, {1, -2, 3}), up({3, 1}, {1, 1, 1}));
  });
  EXPECT_EQ(dx.values(), std::vector<float>(3, 0.0F));
}

TEST_P(Softmax, BackwardOverwritesItsOutputAndItsGradient) {
  const Case c(9, 100);
  const Output dx(context(), c.shape);
  const Tensor dy = up(c.shape, c.dy);
  const Tensor y = up(c.shape, c.y());
  run([&](Batch& b) {
    record_softmax_backward(b, dx.tensor(), dy, y);
    record_softmax_backward(b, dx.tensor(), dy, y);
    record_softmax_backward(b, dy, dy, y);
  });
  test::expect_close(dx.values(), c.backward(), c.tolerance(), "second call");
  test::expect_close(context().read<float>(dy), c.backward(), c.tolerance(), "dx as dy");
}

TEST_P(Softmax, ForwardTakesEachTypeOfXAndY) {
  for (Case c : test::vec_size_cases<Case>()) {
    for (const auto& [x_type, y_type] : test::kTwoTypes) {
      const Tensor x = test::upload_as(context(), x_type, c.shape, c.x);
      const Output y(context(), c.shape, y_type);
      run([&](Batch& b) { record_softmax(b, y.tensor(), x); });
      test::expect_close(y.values(), c.forward(), c.tolerance() + test::rounding_of(y_type),
                         x.text() + " to " + y.tensor().text());
    }
  }
}

TEST_P(Softmax, BackwardTakesEachTypeOfEachTensor) {
  for (const Case& c : test::vec_size_cases<Case>()) {
    for (const auto& [y_type, dy_type, dx_type] : test::kThreeTypes) {
      std::vector<float> y_values = c.y();
      std::vector<float> dy_values = c.dy;
      const Tensor y = test::upload_as(context(), y_type, c.shape, y_values);
      const Tensor dy = test::upload_as(context(), dy_type, c.shape, dy_values);
      const Output dx(context(), c.shape, dx_type);
      run([&](Batch& b) { record_softmax_backward(b, dx.tensor(), dy, y); });
      test::expect_close(dx.values(),
                         reference::softmax_backward(test::to_double(dy_values),
                                                     test::to_double(y_values), c.width()),
                         c.tolerance() + test::rounding_of(dx_type),
                         y.text() + ", " + dy.text() + " to " + dx.tensor().text());
    }
  }
}

TEST_P(Softmax, RefusesTensorsThatDoNotMatch) {
  Batch b(context());
  const Case c(4, 6);
  const Tensor t = up(c.shape, c.x);
  const Tensor wrong = up({6, 4}, c.x);
  const auto forward = [&](const Tensor& y, const Tensor& x) {
    return test::error_of([&] { record_softmax(b, y, x); });
  };
  const auto backward = [&](const Tensor& dx, const Tensor& dy, const Tensor& y) {
    return test::error_of([&] { record_softmax_backward(b, dx, dy, y); });
  };
  using testing::HasSubstr;
  EXPECT_THAT(forward(wrong, t), HasSubstr("softmax: y must be f32 [4, 6], got f32 [6, 4]"));
  EXPECT_THAT(forward(t, {}), HasSubstr("x must"));
  EXPECT_THAT(backward(wrong, t, t), HasSubstr("dx must"));
  EXPECT_THAT(backward(t, wrong, t), HasSubstr("dy must"));
  EXPECT_THAT(backward(t, t, {}), HasSubstr("y must"));
  EXPECT_EQ(b.commands(), 0U);
}

TEST(SoftmaxReference, BackwardIsTheDerivativeOfForward) {
  const std::vector<double> x = test::to_double(test::random_values(22, 1, 2));
  const std::vector<double> dy = test::to_double(test::random_values(22, 2));
  const auto loss = [&](const std::vector<double>& at) {
    const std::vector<double> y = reference::softmax(at, 11);
    return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
  };
  test::expect_close(reference::softmax_backward(dy, reference::softmax(x, 11), 11),
                     test::central_differences(loss, x), 1e-8, "analytic against numeric");
}

}  // namespace
}  // namespace clora
