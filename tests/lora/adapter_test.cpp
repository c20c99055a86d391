#include "clora/lora/adapter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "clora/lora/merge.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::context_of;
using test::error_of;
using testing::HasSubstr;

const std::vector<AdapterSite> kSites{{"model.layers.0.self_attn.q_proj", 33, 17},
                                      {"model.layers.1.self_attn.q_proj", 64, 5}};

Context& context() { return context_of(Variant::portable); }

TEST(Adapter, BeginsAsTheIdentityWithAKaimingUniformA) {
  Adapter adapter(context(), kSites, {.rank = 16});
  adapter.initialise(1);
  const LoraWeights weights = adapter.weights(kSites[1].path);
  const std::vector<float> a = context().read<float>(weights.a);
  const auto [least, most] = std::ranges::minmax_element(a);
  EXPECT_GE(*least, -0.125F);  // 1 / sqrt(64)
  EXPECT_LT(*most, 0.125F);
  EXPECT_GT(*most, 0.11F);
  EXPECT_LT(*least, -0.11F);
  for (const float b : context().read<float>(weights.bt)) ASSERT_EQ(b, 0.0F);
}

TEST(Adapter, IsTheSameForASeedAndAnotherForAnother) {
  const auto parameters = [](std::uint64_t seed) {
    Adapter adapter(context(), kSites, {});
    adapter.initialise(seed);
    return context().read<float>(adapter.parameters());
  };
  EXPECT_EQ(parameters(3), parameters(3));
  EXPECT_NE(parameters(3), parameters(4));
}

TEST(Adapter, ScalesByAlphaOverTheRankOrItsRoot) {
  const Adapter plain(context(), kSites, {.rank = 16, .alpha = 8});
  EXPECT_FLOAT_EQ(plain.weights(kSites[0].path).scale, 0.5F);
  const Adapter stabilised(context(), kSites, {.rank = 16, .alpha = 8, .rank_stabilised = true});
  EXPECT_FLOAT_EQ(stabilised.weights(kSites[0].path).scale, 2.0F);
}

TEST(Adapter, CountsItsParametersWithoutPadding) {
  const Adapter adapter(context(), kSites, {.rank = 3});
  EXPECT_EQ(adapter.trainable_parameters(), 3 * (33 + 17 + 64 + 5));
  EXPECT_GE(adapter.parameters().elements(), adapter.trainable_parameters());
}

TEST(Adapter, HasNothingForAnUnknownPath) {
  const Adapter adapter(context(), kSites, {});
  EXPECT_TRUE(adapter.weights("model.layers.9.self_attn.q_proj").empty());
}

TEST(Adapter, RefusesARankBelowOneAndNoSites) {
  EXPECT_THAT(error_of([] { Adapter(context(), kSites, {.rank = 0}); }), HasSubstr("rank"));
  EXPECT_THAT(error_of([] { Adapter(context(), kSites, {.rank = 1'000'000'000'000}); }),
              HasSubstr("from 1 to 65536, got 1000000000000"));
  EXPECT_THAT(error_of([] { Adapter(context(), kSites, {.alpha = 1e300}); }),
              HasSubstr("the scale of model.layers.0.self_attn.q_proj"));
  EXPECT_THAT(error_of([] { Adapter(context(), std::vector<AdapterSite>{}, {}); }),
              HasSubstr("no linear layer"));
  EXPECT_THAT(error_of([] { Adapter(context(), kSites, {.dropout = 1}); }), HasSubstr("dropout"));
}

TEST(Adapter, ReportsHowMuchMemoryItsMatricesNeed) {
  const std::vector<AdapterSite> wide{{"model.layers.0.mlp.up_proj", 1 << 30, 1 << 30}};
  EXPECT_THAT(error_of([&] { Adapter(context(), wide, {.rank = 65536}); }),
              HasSubstr("its matrices need 536870912 MiB"));
}

TEST(Merge, AddsTheScaledProductOfBAndA) {
  const HostLora lora{.a = {1, 2, 3, 4, 5, 6},
                      .bt = {10, 20, 1, 2},
                      .rank = 2,
                      .inputs = 3,
                      .outputs = 2,
                      .scale = 0.5};
  std::vector<float> w{1, 1, 1, 1, 1, 1};
  merge_into(w, lora);
  // b = [[10, 1], [20, 2]]: row 0 of b a is 10 (1, 2, 3) + 1 (4, 5, 6), and row 1 is twice row 0.
  EXPECT_THAT(w, testing::ElementsAre(8, 13.5F, 19, 15, 26, 37));
}

}  // namespace
}  // namespace clora
