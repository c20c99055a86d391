// f32 to bf16 and back: the nearest, ties to even, in every length; what is not finite stays so.
#include "ops/cast.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/half.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

class Cast : public test::OpTest {
 protected:
  // x rounded to bf16 and brought back.
  std::vector<float> there_and_back(const std::vector<float>& x) {
    const Shape shape{static_cast<std::int64_t>(x.size())};
    const test::Output y(context(), shape);
    run([&](Batch& batch) {
      const Tensor rounded = batch.temporary(shape, DType::bf16, "rounded");
      record_cast(batch, rounded, test::upload(context(), shape, x));
      record_cast(batch, y.tensor(), rounded);
    });
    return y.values();
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Cast, test::all_variants(), test::variant_name);

TEST_P(Cast, RoundsToTheNearestInEveryLength) {
  for (const std::size_t n : {1U, 15U, 16U, 17U, 127U, 129U, 5003U}) {
    if (!test::affords(static_cast<std::int64_t>(n))) continue;
    const std::vector<float> x = test::random_values(n, 1, 8);
    const std::vector<float> got = there_and_back(x);
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(got[i], bf16_to_float(float_to_bf16(x[i]))) << i << " of " << n;
    }
  }
}

TEST_P(Cast, TiesGoToEvenAndWhatIsNotFiniteStaysSo) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {1.00390625F, 1.01171875F, -1.00390625F, 0.0F, -0.0F, 1e-40F,
                                3.4e38F,     kInfinity,   -kInfinity,   2.5F, NAN};
  // Between 1 and the next bf16, 2^-7 on: 1 is even; halfway to the one after it: that is.
  const std::vector<float> want = {
      1.0F,      1.015625F, -1.0F,      0.0F, -0.0F, bf16_to_float(float_to_bf16(1e-40F)),
      kInfinity, kInfinity, -kInfinity, 2.5F};
  const std::vector<float> got = there_and_back(x);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i], want[i]) << x[i];
  EXPECT_TRUE(std::signbit(got[4]));
  EXPECT_TRUE(std::isnan(got.back()));
}

TEST_P(Cast, RefusesOtherTypesAndShapes) {
  Batch batch(context());
  const Tensor x = context().allocate({4}, DType::f32, MemoryTag::scratch);
  const Tensor half = context().allocate({4}, DType::f16, MemoryTag::scratch);
  const Tensor longer = context().allocate({5}, DType::bf16, MemoryTag::scratch);
  using testing::HasSubstr;
  EXPECT_THAT(test::error_of([&] { record_cast(batch, x, half); }), HasSubstr("x must be f32 or"));
  EXPECT_THAT(test::error_of([&] { record_cast(batch, half, x); }), HasSubstr("y must be bf16"));
  EXPECT_THAT(test::error_of([&] { record_cast(batch, longer, x); }), HasSubstr("bf16 [4]"));
  EXPECT_THAT(test::error_of([&] { record_cast(batch, x, Tensor()); }), HasSubstr("got nothing"));
}

}  // namespace
}  // namespace clora
