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

TEST(Adapter, IsMadeOfNamedSlicesOfTwoGroups) {
  const Adapter adapter(context(), kSites, {.rank = 3});
  const ParameterSet& set = adapter.parameter_set();
  ASSERT_EQ(set.slices().size(), 4U);
  const ParameterSlice& bt = set.slices()[3];
  EXPECT_EQ(bt.name, "model.layers.1.self_attn.q_proj.lora_B");
  EXPECT_EQ(bt.shape, (Shape{3, 5}));
  EXPECT_EQ(bt.offset, adapter.modules()[1].bt_offset);
  EXPECT_EQ(set.groups()[bt.group].name, Adapter::kLoraB);
  EXPECT_EQ(set.groups()[set.slices()[2].group].name, Adapter::kLoraA);
}

TEST(Adapter, HasMagnitudesInAGroupOfTheirOwnWithDora) {
  Adapter adapter(context(), kSites, {.rank = 3, .use_dora = true});
  adapter.allocate_gradients();
  const ParameterSet& set = adapter.parameter_set();
  ASSERT_EQ(set.slices().size(), 6U);
  EXPECT_EQ(set.slices()[5].name, "model.layers.1.self_attn.q_proj.lora_magnitude_vector");
  EXPECT_EQ(set.groups()[set.slices()[5].group].name, Adapter::kMagnitude);
  const std::string& path = kSites[1].path;
  EXPECT_EQ(adapter.magnitude(path).shape(), (Shape{kSites[1].outputs}));
  EXPECT_EQ(adapter.magnitude_gradient(path).shape(), (Shape{kSites[1].outputs}));
  EXPECT_TRUE(adapter.magnitude("model.layers.9.self_attn.q_proj").empty());
  adapter.initialise(1);
  EXPECT_THAT(context().read<float>(adapter.magnitude(path)), testing::Each(testing::IsNan()))
      << "until they are initialised by the weights";
  EXPECT_TRUE(Adapter(context(), kSites, {.rank = 3}).magnitude(path).empty());
}

// |w + scale b a| is 5 for a row of 3 + 0, 4 + 0, and 0 for a row of zeros.
TEST(Adapter, MergesMagnitudesIntoTheRowsOfAWeight) {
  const HostLora lora{.a = {1, 0},
                      .bt = {2, 0},
                      .rank = 1,
                      .inputs = 2,
                      .outputs = 2,
                      .scale = 0.5,
                      .magnitude = {10, 7}};
  std::vector<float> w{2, 4, 0, 0};
  merge_into(w, lora);
  EXPECT_THAT(w, testing::ElementsAre(6, 8, 0, 0));
}

TEST(ParameterSet, PlacesItsSlicesWhereKernelArgumentsMayBegin) {
  ParameterSet set(context());
  const std::size_t norms = set.add_group({.name = "norms", .decay = 0});
  EXPECT_EQ(set.add({"first", {65}, norms}), 0U);
  const std::size_t second = set.add({"second", {3, 2}, norms});
  set.allocate("test");
  set.allocate_gradients();
  EXPECT_GE(second, 65U);
  EXPECT_EQ(second % ParameterSet::kBlock, 0U);
  EXPECT_EQ(2 * second % context().device().base_alignment_bytes, 0U) << "in bf16";
  EXPECT_EQ(set.elements(), 65 + 6);
  EXPECT_EQ(set.gradients().shape(), set.parameters().shape());
  EXPECT_THAT(context().read<float>(set.parameters()), testing::Each(0.0F));
  EXPECT_EQ(ParameterSet::view(set.gradients(), second, {3, 2}).shape(), (Shape{3, 2}));
}

TEST(ParameterSet, RefusesSlicesWithoutAGroupOrAfterItsAllocation) {
  ParameterSet set(context());
  EXPECT_THAT(error_of([&] {
                set.add({"w", {3}, 0});
              }),
              HasSubstr("parameters: w needs one of the 0 groups, got number 0"));
  EXPECT_THAT(error_of([&] { set.allocate_gradients(); }), HasSubstr("which were not allocated"));
  set.add({"w", {3}, set.add_group({.name = "all"})});
  set.allocate("test");
  EXPECT_THAT(error_of([&] {
                set.add({"late", {3}, 0});
              }),
              HasSubstr("late is added after the buffers were allocated"));
  for (std::size_t i = 1; i < ParameterSet::kMaxGroups; ++i) set.add_group({});
  EXPECT_THAT(error_of([&] { set.add_group({}); }), HasSubstr("at most 256 groups"));
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
