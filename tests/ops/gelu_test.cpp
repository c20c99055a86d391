#include "clora/ops/rowwise/gelu.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/reference/gelu_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::Output;

// Widths around 16 lanes, a portable group of 128, a cpu group of 4096, and a real model's width.
std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const std::int64_t n : {1, 2, 13, 15, 16, 17, 31, 33, 127, 128, 129, 4095, 8191, 8193}) {
    all.push_back({1, n});
  }
  all.push_back({37, 1536});
  std::erase_if(all, [](const Shape& shape) { return !test::affords(shape.elements()); });
  return all;
}

// Of the largest value, since P is accurate to 1e-7 absolutely.
const double kTolerance = test::tolerance_of(1);

class Gelu : public test::OpTest {
 protected:
  Tensor upload(const Shape& shape, const std::vector<float>& values) {
    return test::upload(context(), shape, values);
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Gelu, test::all_variants(), test::variant_name);

TEST_P(Gelu, AgreesWithTheReferenceForwardAndBackward) {
  for (const GeluForm form : {GeluForm::exact, GeluForm::tanh}) {
    for (const Shape& shape : shapes()) {
      const auto n = static_cast<std::size_t>(shape.elements());
      const std::vector<float> x = test::random_values(n, 1, 6), dy = test::random_values(n, 2);
      const Output y(context(), shape), dx(context(), shape);
      const Output again(context(), shape), dx_again(context(), shape);
      run([&](Batch& b) {
        const Tensor in = upload(shape, x), d = upload(shape, dy);
        record_gelu(b, y.tensor(), in, form);
        record_gelu_backward(b, dx.tensor(), d, in, {}, form);
        record_gelu_backward(b, dx_again.tensor(), d, in, again.tensor(), form);
      });
      const auto want = reference::gelu(test::to_double(dy), test::to_double(x), form);
      test::expect_close(y.values(), want.y, kTolerance, shape.text());
      test::expect_close(again.values(), want.y, kTolerance, shape.text() + " again");
      test::expect_close(dx.values(), want.dx, 3 * kTolerance, shape.text() + " dx");
      test::expect_close(dx_again.values(), want.dx, 3 * kTolerance, shape.text() + " dx again");
    }
  }
}

TEST_P(Gelu, IsFiniteFarFromZero) {
  const std::vector<float> x = {-1e6F, -1000, -100, -30, 0, 30, 100, 1000, 1e6F};
  const Shape shape{static_cast<std::int64_t>(x.size())};
  for (const GeluForm form : {GeluForm::exact, GeluForm::tanh}) {
    const Output y(context(), shape), dx(context(), shape);
    run([&](Batch& b) {
      const Tensor in = upload(shape, x);
      record_gelu(b, y.tensor(), in, form);
      record_gelu_backward(b, dx.tensor(), upload(shape, std::vector<float>(x.size(), 1.0F)), in,
                           {}, form);
    });
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float want = x[i] > 0 ? x[i] : 0;
      EXPECT_NEAR(y.values()[i], want, 1e-6 * want + 1e-20) << x[i];
      EXPECT_NEAR(dx.values()[i], x[i] > 0 ? 1 : x[i] < 0 ? 0 : 0.5, 1e-6) << x[i];
    }
  }
}

TEST_P(Gelu, MayOverwriteItsInput) {
  const Shape shape{3, 70};
  const std::vector<float> x = test::random_values(210, 1, 6), dy = test::random_values(210, 2);
  const Tensor in = upload(shape, x), d = upload(shape, dy);
  run([&](Batch& b) {
    record_gelu_backward(b, d, d, in);
    record_gelu(b, in, in);
  });
  const auto want = reference::gelu(test::to_double(dy), test::to_double(x), GeluForm::exact);
  test::expect_close(context().read<float>(in), want.y, kTolerance, "y");
  test::expect_close(context().read<float>(d), want.dx, 3 * kTolerance, "dx");
}

TEST_P(Gelu, RoundsTo16BitsOnce) {
  const Shape shape{5, 33};
  std::vector<float> x = test::random_values(165, 1, 6), dy = test::random_values(165, 2);
  for (const DType type : {DType::bf16, DType::f16}) {
    const Tensor in = test::upload_as(context(), type, shape, x);
    const Tensor d = test::upload_as(context(), type, shape, dy);
    const Output y(context(), shape), dx(context(), shape);
    run([&](Batch& b) {
      record_gelu(b, y.tensor(), in);
      record_gelu_backward(b, dx.tensor(), d, in);
    });
    const auto want = reference::gelu(test::to_double(dy), test::to_double(x), GeluForm::exact);
    test::expect_close(y.values(), want.y, kTolerance, "y");
    test::expect_close(dx.values(), want.dx, 3 * kTolerance, "dx");
  }
}

TEST_P(Gelu, RefusesTensorsThatDoNotFit) {
  const Tensor x = upload({4, 8}, test::random_values(32, 1));
  const Tensor other = upload({4, 9}, test::random_values(36, 1));
  Batch batch(context());
  EXPECT_THAT(test::error_of([&] { record_gelu(batch, other, x); }),
              testing::HasSubstr("gelu: y must be"));
  EXPECT_THAT(test::error_of([&] { record_gelu_backward(batch, x, other, x); }),
              testing::HasSubstr("gelu: dy must be"));
  const Tensor d = upload({4, 8}, test::random_values(32, 2));
  EXPECT_THAT(test::error_of([&] { record_gelu_backward(batch, d, d, x, d); }),
              testing::HasSubstr("y must not alias dx"));
}

}  // namespace
}  // namespace clora
