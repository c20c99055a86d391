// Bounds of numbers as grammars, compared with arithmetic.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/grammar_texts.hpp"

namespace clora {
namespace {

using test::accepts;
using test::schema_grammar;

std::string bounded(const std::string& type, const std::string& low, const std::string& high) {
  return R"({"type":")" + type + R"(","minimum":)" + low + R"(,"maximum":)" + high + "}";
}

TEST(GrammarNumbers, AdmitExactlyTheIntegersBetweenTwoBounds) {
  for (const int low : {-120, -101, -100, -99, -10, -7, -1, 0, 1, 5, 9, 10, 99, 100, 118}) {
    for (const int high : {-110, -100, -99, -9, -1, 0, 3, 9, 10, 11, 57, 100, 119}) {
      if (low > high) continue;
      const auto grammar =
          schema_grammar(bounded("integer", std::to_string(low), std::to_string(high)));
      for (int value = -130; value <= 130; ++value) {
        EXPECT_EQ(accepts(grammar, std::to_string(value)), low <= value && value <= high)
            << low << " " << value << " " << high;
      }
    }
  }
}

// Values in hundredths, in all their spellings of up to three digits after the point.
TEST(GrammarNumbers, AdmitExactlyTheNumbersBetweenTwoBounds) {
  const auto text_of = [](int hundredths) {
    const int magnitude = std::abs(hundredths);
    const std::string cents = std::to_string(magnitude % 100);
    return (hundredths < 0 ? "-" : "") + std::to_string(magnitude / 100) + "." +
           (cents.size() < 2 ? "0" + cents : cents);
  };
  for (const bool exclusive : {false, true}) {
    for (const int low : {-1250, -100, -99, -5, 0, 25, 100, 990}) {
      for (const int high : {-1205, -50, -4, 0, 26, 30, 101, 150, 1005}) {
        if (low > high || (exclusive && low == high)) continue;
        const std::string word = exclusive ? "exclusiveM" : "m";
        const auto grammar =
            schema_grammar(R"({"type":"number",")" + word + R"(inimum":)" + text_of(low) + ",\"" +
                           word + R"(aximum":)" + text_of(high) + "}");
        for (int value = -1300; value <= 1100; value += 1 + std::abs(value) % 3) {
          const bool inside =
              exclusive ? low < value && value < high : low <= value && value <= high;
          const std::string text = text_of(value);
          if (value == 0) continue;
          EXPECT_EQ(accepts(grammar, text), inside) << low << " " << text << " " << high;
          EXPECT_EQ(accepts(grammar, text + "0"), inside) << low << " " << text << "0 " << high;
          if (value % 100 != 0) continue;
          EXPECT_EQ(accepts(grammar, std::to_string(value / 100)), inside)
              << low << " " << value << " " << high;
        }
      }
    }
  }
}

// The numbers that a schema's bounds admit, and some that they do not.
struct Bounds {
  std::string schema;
  std::vector<std::string> inside, outside;
};

void expect_bounds(const Bounds& bounds) {
  const auto grammar = schema_grammar(bounds.schema);
  for (const std::string& number : bounds.inside) {
    EXPECT_TRUE(accepts(grammar, number)) << number << " by " << bounds.schema;
  }
  for (const std::string& number : bounds.outside) {
    EXPECT_FALSE(accepts(grammar, number)) << number << " by " << bounds.schema;
  }
}

TEST(GrammarNumbers, HaveOneBoundOrFractionsOrExponents) {
  expect_bounds({.schema = R"({"type":"number","minimum":2.5e-1})",
                 .inside = {"0.25", "999999999999999999"},
                 .outside = {"0.2499", "-1", "1e5"}});
  expect_bounds({.schema = R"({"type":"number","exclusiveMaximum":0})",
                 .inside = {"-0.001", "-12"},
                 .outside = {"0", "-0", "-0.0"}});
  expect_bounds({.schema = R"({"type":"integer","minimum":0.5,"exclusiveMaximum":3.0})",
                 .inside = {"1", "2"},
                 .outside = {"0", "3"}});
}

TEST(GrammarNumbers, ExcludeBothBoundsOfIntegers) {
  for (const int low : {-2, 0, 7}) {
    const auto above = schema_grammar(R"({"type":"integer","exclusiveMinimum":)" +
                                      std::to_string(low) + R"(,"exclusiveMaximum":9})");
    for (int value = -4; value < 12; ++value)
      EXPECT_EQ(accepts(above, std::to_string(value)), low < value && value < 9) << low << value;
  }
}

TEST(GrammarNumbers, ReachTheLimitsOf64Bits) {
  expect_bounds({.schema = R"({"type":"integer","minimum":1,"maximum":18446744073709551615})",
                 .inside = {"9223372036854775807"},
                 .outside = {"9223372036854775808", "0"}});
  expect_bounds({.schema = R"({"type":"integer","minimum":9223372036854775807,"maximum":1e300})",
                 .inside = {"9223372036854775807"},
                 .outside = {"9223372036854775806"}});
}

}  // namespace
}  // namespace clora
