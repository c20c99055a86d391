// attention over a KV cache of each type.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/reference/attention_reference.hpp"
#include "tests/support/attention_problems.hpp"

namespace clora {
namespace {

using test::cached;
using test::Floats;
using test::Heads;
using test::kHeads;
using test::Problem;
using test::Types;

using Attention = test::AttentionTest;
INSTANTIATE_TEST_SUITE_P(Variants, Attention, test::all_variants(), test::variant_name);

TEST_P(Attention, MatchesTheFormulaOverACache) {
  for (const auto& [H, G, E] : kHeads) {
    for (const std::size_t T : {1, 5, 16, 17, 40}) {
      check_forward(cached(T, 77, 100, H, G, E), fmt::format("T {} H {} G {} E {}", T, H, G, E));
    }
    check_forward(cached(1, 1, 3, H, G, E), fmt::format("first token, E {}", E));
    check_forward(cached(1, 300, 300, H, G, E), fmt::format("full cache, E {}", E));
    check_forward(cached(2, 3, 300, H, G, E), fmt::format("fewer keys than splits, E {}", E));
  }
}

// As over a KV cache: q and y of activations, keys and values of the cache's type.
const std::vector<Types> kCacheTypes = {{.keys = DType::bf16},
                                        {.keys = DType::f16},
                                        {.x = DType::bf16, .y = DType::bf16, .keys = DType::f16},
                                        {.x = DType::f16, .y = DType::f32, .keys = DType::f32}};

TEST_P(Attention, MatchesTheFormulaOverACacheOfEveryType) {
  for (const auto& [H, G, E] : std::vector<Heads>{{2, 2, 5}, {4, 2, 30}, {9, 3, 64}, {8, 1, 256}}) {
    for (const Types& types : kCacheTypes) {
      const std::string what = fmt::format("{}, H {} G {} E {}", name_of(types), H, G, E);
      for (const std::size_t T : {1, 3, 16, 17, 70}) {
        check_forward(cached(T, 77, 100, H, G, E), fmt::format("{}, T {}", what, T), types);
      }
      check_forward(cached(1, 1, 3, H, G, E), what + ", first token", types);
      check_forward(cached(1, 300, 300, H, G, E), what + ", full cache", types);
    }
  }
}

TEST_P(Attention, CapsScoresOverACacheOfEveryType) {
  for (const DType keys : {DType::bf16, DType::f16}) {
    for (const std::size_t T : {1, 40}) {
      Problem p = cached(T, 77, 100, 4, 2, 32);
      p.soft_cap = 0.7F;
      check_forward(p, fmt::format("{} keys, T {}", name_of(keys), T), {.keys = keys});
    }
  }
}

// A value of the cache's type is read as it is: f32 would keep all of its bits.
TEST_P(Attention, ReadsTheCacheAsItIsStored) {
  for (const std::size_t E : {5, 32, 64}) {
    Problem p = cached(1, 1, 2, 1, 1, E);
    constexpr float kSubnormal = 3 * 0x1p-24F;
    std::ranges::fill(p.v, kSubnormal);
    EXPECT_EQ(forward(p, {.keys = DType::f16}).y, Floats(E, kSubnormal)) << "E " << E;
    std::ranges::fill(p.v, 65504.0F);
    EXPECT_EQ(forward(p, {.keys = DType::f16}).y, Floats(E, 65504.0F)) << "E " << E;
    std::ranges::fill(p.v, 0x1.fep120F);
    EXPECT_EQ(forward(p, {.keys = DType::bf16}).y, Floats(E, 0x1.fep120F)) << "E " << E;
  }
}

}  // namespace
}  // namespace clora
