#include "clora/ops/rowwise/embedding_noise.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using testing::HasSubstr;

class EmbeddingNoise : public test::OpTest {
 protected:
  std::vector<float> noisy(const Shape& shape, std::vector<float> x, std::vector<float> scale,
                           const std::vector<std::uint32_t>& seed_and_step = {1, 2}) {
    const Tensor tensor = test::upload(context(), shape, x);
    run([&](Batch& batch) {
      record_embedding_noise(
          batch, tensor, test::upload(context(), {shape[0]}, scale),
          context().upload<std::uint32_t>({2}, DType::u32, seed_and_step, MemoryTag::scratch));
    });
    return context().read<float>(tensor);
  }
  std::vector<float> noise(std::int64_t rows, std::int64_t width,
                           const std::vector<std::uint32_t>& seed_and_step = {1, 2}) {
    return noisy({rows, width}, std::vector<float>(static_cast<std::size_t>(rows * width)),
                 std::vector<float>(static_cast<std::size_t>(rows), 1.0F), seed_and_step);
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, EmbeddingNoise, test::all_variants(), test::variant_name);

TEST_P(EmbeddingNoise, IsUniformBetweenMinusOneAndOne) {
  CLORA_SKIP_UNLESS_AFFORDED(300 * 200);
  const std::vector<float> u = noise(300, 200);
  const auto n = static_cast<double>(u.size());
  const auto mean_of = [&](auto f) {
    return std::accumulate(u.begin(), u.end(), 0.0,
                           [&](double sum, float x) { return sum + f(double{x}); }) /
           n;
  };
  EXPECT_GE(std::ranges::min(u), -1);
  EXPECT_LT(std::ranges::max(u), 1);
  EXPECT_LT(std::ranges::min(u), -0.999);
  EXPECT_GT(std::ranges::max(u), 0.999);
  // Five standard deviations of means of n values.
  EXPECT_NEAR(mean_of([](double x) { return x; }), 0, 5 * std::sqrt(1 / 3.0 / n));
  EXPECT_NEAR(mean_of([](double x) { return x * x; }), 1 / 3.0, 5 * std::sqrt(4 / 45.0 / n));
  double neighbours = 0, rows = 0;
  for (std::size_t i = 200; i < u.size(); ++i) {
    neighbours += double{u[i]} * double{u[i - 1]} / n;
    rows += double{u[i]} * double{u[i - 200]} / n;
  }
  EXPECT_NEAR(neighbours, 0, 5 / 3.0 / std::sqrt(n));
  EXPECT_NEAR(rows, 0, 5 / 3.0 / std::sqrt(n));
}

TEST_P(EmbeddingNoise, IsAddedToEachElementTimesTheScaleOfItsRow) {
  for (const auto& [rows, width] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {3, 7}, {5, 128}, {1100, 130}}) {
    if (!test::affords(rows * width)) continue;
    const auto x = test::random_values(static_cast<std::size_t>(rows * width), 3);
    std::vector<float> scale = test::random_values(static_cast<std::size_t>(rows), 4);
    scale[0] = 0;
    const std::vector<float> u = noise(rows, width), got = noisy({rows, width}, x, scale);
    std::vector<double> want(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      want[i] = double{x[i]} + double{scale[i / static_cast<std::size_t>(width)]} * double{u[i]};
    }
    test::expect_close(got, want, 1e-6, "noisy");
    EXPECT_TRUE(std::equal(x.begin(), x.begin() + width, got.begin())) << "a scale of 0 adds none";
    EXPECT_TRUE(std::ranges::none_of(u, [](float each) { return each == 0; }));
  }
}

TEST_P(EmbeddingNoise, IsAFunctionOfSeedAndStep) {
  const std::vector<float> first = noise(7, 31);
  EXPECT_EQ(noise(7, 31), first);
  EXPECT_NE(noise(7, 31, {1, 3}), first);
  EXPECT_NE(noise(7, 31, {2, 2}), first);
  EXPECT_NE(noise(7, 31, {2, 1}), first);
  // Rows do not depend on how many there are.
  const std::vector<float> more = noise(9, 31);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), more.begin()));
}

TEST_P(EmbeddingNoise, RefusesShapesThatDoNotFit) {
  const auto make = [&](Shape shape, DType type = DType::f32) {
    return context().allocate(shape, type, MemoryTag::scratch);
  };
  const auto message = [&](const Tensor& x, const Tensor& scale, const Tensor& counters) {
    return test::error_of([&] {
      Batch batch(context());
      record_embedding_noise(batch, x, scale, counters);
    });
  };
  const Tensor x = make({4, 6}), scale = make({4}), counters = make({2}, DType::u32);
  EXPECT_THAT(message(scale, scale, counters), HasSubstr("x must be f32 [T, D]"));
  EXPECT_THAT(message(x, make({5}), counters), HasSubstr("scale must be f32 [4], got f32 [5]"));
  EXPECT_THAT(message(x, scale, make({2})), HasSubstr("seed_and_step must be u32 [2]"));
}

}  // namespace
}  // namespace clora
