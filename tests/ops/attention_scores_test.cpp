// attention with scores that are capped softly, or have a bias of the distance.
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
using test::expect_close;
using test::Floats;
using test::Heads;
using test::kTypes;
using test::packed;
using test::Problem;
using test::Types;
using test::whole_documents;

using Attention = test::AttentionTest;
INSTANTIATE_TEST_SUITE_P(Variants, Attention, test::all_variants(), test::variant_name);

// Scores are up to 4. Each cap and head dim is another program, so there are few.
TEST_P(Attention, CapsScoresSoftly) {
  for (const auto& [H, G, E] : std::vector<Heads>{{2, 2, 5}, {4, 2, 32}, {3, 1, 64}}) {
    Problem p = packed({31, 1, 70, 2, 133}, H, G, E);
    p.soft_cap = 0.7F;
    check_forward(p, fmt::format("H {} G {} E {}", H, G, E));
    check_backward(p, fmt::format("H {} G {} E {}", H, G, E));
    for (const std::size_t T : {1, 5, 17}) {
      Problem few = cached(T, 77, 100, H, G, E);
      few.soft_cap = 0.7F;
      check_forward(few, fmt::format("T {} H {} G {} E {}", T, H, G, E));
    }
  }
  for (const Types& types : {kTypes.front(), kTypes[3]}) {
    Problem p = packed({60, 1, 50}, 4, 2, 32);
    p.soft_cap = 0.7F;
    check_forward(p, name_of(types), types);
    check_backward(p, name_of(types), types);
  }
}

// Scores of a row are all near the cap, and their gradients vanish.
TEST_P(Attention, CapsScoresFarBeyondTheCap) {
  Problem p = packed({90}, 2, 1, 32);
  if (!p.affordable()) GTEST_SKIP() << "not with CLORA_TEST_SIZES=small";
  for (float& x : p.q) x *= 40;
  p.soft_cap = 0.7F;
  const Problem same = rounds(p) ? p.cast_to_bf16(GetParam()) : p;
  expect_close(forward(p).y, same.reference().y, rounds(p) ? 0x1p-7 : 1e-4, "y");
}

TEST_P(Attention, KeepsANaNOfOneDocumentOutOfTheOthersWithACap) {
  for (const std::size_t E : {5, 32}) {
    Problem p = packed({20, 45}, 2, 1, E);
    p.soft_cap = 0.7F;
    const Floats want = forward(p).y;
    std::fill_n(p.k.begin(), 20 * E, std::numeric_limits<float>::quiet_NaN());
    const Floats got = forward(p).y;
    const auto begin = static_cast<std::ptrdiff_t>(20 * 2 * E);
    EXPECT_TRUE(std::isnan(got.front())) << "E " << E;
    EXPECT_TRUE(std::equal(got.begin() + begin, got.end(), want.begin() + begin)) << "E " << E;
  }
}

// In both directions, with few rows, many rows, and several chunks.
TEST_P(Attention, AddsABiasOfTheDistance) {
  for (const auto& [H, G, E] : std::vector<Heads>{{2, 2, 5}, {4, 2, 32}, {3, 1, 64}}) {
    for (const auto& documents :
         std::vector<std::vector<std::size_t>>{{3}, {10, 1, 5}, {31, 1, 70, 2, 133}}) {
      for (Problem p : {packed(documents, H, G, E), whole_documents(documents, H, G, E)}) {
        p.bias = test::random_values(H * (2 * p.n.T - 1), 5, 2);
        const std::string what = fmt::format("T {} H {} G {} E {}", p.n.T, H, G, E);
        check_forward(p, what);
        if (p.n.T > 3) check_backward(p, what);
      }
    }
  }
  for (const Types& types : {kTypes.front(), kTypes[3]}) {
    Problem p = whole_documents({60, 1, 50}, 4, 2, 32);
    p.bias = test::random_values(4 * (2 * p.n.T - 1), 5, 2);
    check_forward(p, name_of(types), types);
    check_backward(p, name_of(types), types);
  }
}

}  // namespace
}  // namespace clora
