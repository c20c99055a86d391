// attention of activations of each type.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/reference/attention_reference.hpp"
#include "tests/support/attention_problems.hpp"

namespace clora {
namespace {

using test::cached;
using test::Floats;
using test::Heads;
using test::kTypes;
using test::packed;
using test::Problem;
using test::Types;

using Attention = test::AttentionTest;
INSTANTIATE_TEST_SUITE_P(Variants, Attention, test::all_variants(), test::variant_name);

TEST_P(Attention, MatchesTheFormulaForEveryTypeOfActivations) {
  for (const auto& [H, G, E] : std::vector<Heads>{{2, 2, 5}, {4, 2, 16}, {4, 2, 64}, {2, 1, 128}}) {
    for (const Types& types : kTypes) {
      const std::string what = fmt::format("{}, E {}", name_of(types), E);
      check_forward(cached(3, 77, 100, H, G, E), what + ", few rows", types);
      check_forward(packed({60, 1, 50}, H, G, E), what, types);
      check_backward(packed({60, 1, 50}, H, G, E), what, types);
    }
  }
}

TEST_P(Attention, RoundsF16AsIeeeDoes) {
  for (const std::size_t E : {16, 64}) {
    Problem p = packed({40}, 2, 1, E);
    constexpr float kSubnormal = 3 * 0x1p-24F;
    std::ranges::fill(p.v, kSubnormal);
    p.v[5 * E] = 65504;  // keys 0 to 4 are subnormal
    std::ranges::fill(p.dy, 40000.0F);
    constexpr Types kF16{DType::f16, DType::f16, DType::f16, DType::f16};
    const Floats y = forward(p, kF16).y, dv = backward(p, 1, kF16).dv;
    EXPECT_EQ(y.front(), kSubnormal);
    EXPECT_EQ(y.back(), kSubnormal);
    // Row 0 gives all its weight to key 0, in two heads: 80000 or more.
    EXPECT_EQ(dv.front(), std::numeric_limits<float>::infinity());
    p.v.front() = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(std::isfinite(forward(p, kF16).y.front()));
    p.v.front() = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(forward(p, kF16).y.front()));
  }
}

}  // namespace
}  // namespace clora
