#include "model/transformer/rope_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "clora/model/configuration/model_config.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

TEST(RopeTable, HoldsCosineAndSineOfEachPositionAndPair) {
  const std::vector<double> frequencies{M_PI / 2, M_PI / 6};
  const std::vector<float> table = make_rope_table(3, frequencies);
  const std::vector<double> want{1,
                                 0,
                                 1,
                                 0,  //
                                 0,
                                 1,
                                 std::sqrt(3) / 2,
                                 0.5,  //
                                 -1,
                                 0,
                                 0.5,
                                 std::sqrt(3) / 2};  //
  ASSERT_EQ(table.size(), 12U);
  for (std::size_t i = 0; i < table.size(); ++i) EXPECT_NEAR(table[i], want[i], 1e-7) << i;
}

TEST(RopeTable, LastPositionOfALongContextIsAsExactAsTheFirst) {
  const std::vector<double> frequencies =
      rope_frequencies({.base = 500000, .width = 64, .scaling = {}});
  constexpr std::int64_t kPositions = 131072;
  const std::vector<float> table = make_rope_table(kPositions, frequencies);
  const float* last = table.data() + table.size() - 64;
  for (int i = 0; i < 32; ++i) {
    const long double angle = (kPositions - 1) * std::pow(500000.0L, -i / 32.0L);
    EXPECT_NEAR(last[2 * i], static_cast<double>(std::cos(angle)), 6.1e-8) << i;
    EXPECT_NEAR(last[2 * i + 1], static_cast<double>(std::sin(angle)), 6.1e-8) << i;
  }
}

TEST(RopeTable, IsEmptyWithoutPositionsAndRefusesNonFiniteAngles) {
  const std::vector<double> one{1};
  EXPECT_TRUE(make_rope_table(0, one).empty());
  EXPECT_THAT(test::error_of([&] { (void)make_rope_table(-1, one); }),
              testing::HasSubstr("positions must be 0 or more, got -1"));
  const std::vector<double> bad{1, std::numeric_limits<double>::infinity()};
  EXPECT_THAT(test::error_of([&] { (void)make_rope_table(2, bad); }),
              testing::HasSubstr("must be finite"));
}

TEST(RopeTable, IsMultipliedByItsAttentionFactor) {
  const std::vector<double> frequencies{1, 0.1};
  const std::vector<float> plain = make_rope_table(3, frequencies);
  const std::vector<float> scaled = make_rope_table(3, frequencies, 1.5);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_FLOAT_EQ(scaled[i], 1.5F * plain[i]);
}

TEST(RopeTable, OfQueriesIsMultipliedByTheTemperatureOfItsPosition) {
  RopeSpec rope{.base = 100, .width = 4, .scaling = {}};
  const std::vector<float> of_keys = make_rope_table(8, rope);
  EXPECT_EQ(of_keys, make_rope_table(8, rope_frequencies(rope)));
  rope.temperature = QueryTemperature{.scale = 0.5, .length = 3};
  const std::vector<float> of_queries = make_rope_table(8, rope);
  for (std::size_t i = 0; i < of_keys.size(); ++i) {
    const double factor = 1 + 0.5 * std::log(1 + std::floor(static_cast<double>(i / 4) / 3));
    EXPECT_NEAR(of_queries[i], factor * double{of_keys[i]}, 1e-6) << i;
  }
}

}  // namespace
}  // namespace clora
