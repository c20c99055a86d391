#include "clora/ops/rowwise/soft_cap.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/support/op_test.hpp"

namespace clora {
namespace {

class SoftCap : public test::OpTest {
 protected:
  std::vector<float> capped(const std::vector<float>& values, float cap) {
    const test::Output x(context(), {std::ssize(values)});
    const Tensor given = test::upload(context(), {std::ssize(values)}, values);
    run([&](Batch& batch) {
      batch.copy(x.tensor(), given);
      record_soft_cap(batch, x.tensor(), cap);
    });
    return x.values();
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, SoftCap, test::all_variants(), test::variant_name);

TEST_P(SoftCap, IsTheFormulaInEveryLength) {
  for (const std::int64_t n : {1, 3, 15, 16, 17, 31, 1037, 70'000}) {
    if (!test::affords(n)) continue;
    const auto values = test::random_values(static_cast<std::size_t>(n), 1, 90);
    for (const float cap : {0.5F, 30.0F, 1e4F}) {
      std::vector<double> want;
      for (const float x : values) want.push_back(double{cap} * std::tanh(double{x} / cap));
      test::expect_close(capped(values, cap), want, test::tolerance_of(8),
                         fmt::format("{} elements, cap {}", n, cap));
    }
  }
}

TEST_P(SoftCap, EndsAtTheCapAndKeepsNaN) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> got = capped({inf, -inf, 1e30F, 0, std::nanf("")}, 30);
  EXPECT_FLOAT_EQ(got[0], 30);
  EXPECT_FLOAT_EQ(got[1], -30);
  EXPECT_FLOAT_EQ(got[2], 30);
  EXPECT_EQ(got[3], 0);
  EXPECT_TRUE(std::isnan(got[4]));
}

TEST_P(SoftCap, RefusesOtherTensorsAndCaps) {
  const auto error = [&](const Tensor& x, float cap) {
    return test::error_of([&] {
      Batch batch(context());
      record_soft_cap(batch, x, cap);
    });
  };
  const Tensor x = context().allocate({4}, DType::f32, MemoryTag::scratch);
  EXPECT_THAT(error(context().allocate({4}, DType::bf16, MemoryTag::scratch), 1),
              testing::HasSubstr("x must be f32 [4]"));
  EXPECT_THAT(error({}, 1), testing::HasSubstr("at least one element"));
  EXPECT_THAT(error(x, 0), testing::HasSubstr("the cap must be above 0, got 0"));
}

}  // namespace
}  // namespace clora
