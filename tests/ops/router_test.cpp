#include "clora/ops/experts/router.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/reference/experts_reference.hpp"
#include "tests/support/routed_rows.hpp"

namespace clora {
namespace {

using test::HostPlan;
using testing::ElementsAre;
using testing::HasSubstr;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// One and many rows, fewer entries than experts and more, tiles of 16, 32, 64 and 128 rows.
constexpr RoutingSize kSizes[] = {{1, 1, 1},   {1, 8, 3},   {7, 5, 5},   {16, 64, 8}, {67, 6, 2},
                                  {257, 4, 1}, {300, 4, 2}, {500, 3, 2}, {1031, 7, 3}};

class Router : public test::OpTest {
 protected:
  Routing route(const RoutingSize& size, std::span<const float> logits, RouterWeights weights) {
    const Tensor x = test::upload(context(), {size.rows, size.experts}, logits);
    const Routing routing = test::routing_of(context(), size);
    run([&](Batch& batch) { record_router(batch, routing, x, weights); });
    return routing;
  }
  static std::vector<float> random_logits(const RoutingSize& size) {
    return test::random_values(at(size.rows * size.experts), 3, 4);
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Router, test::all_variants(), test::variant_name);

TEST_P(Router, ChoosesTheExpertsOfTheReferenceWithItsWeights) {
  for (const RoutingSize& size : kSizes) {
    if (!test::affords(size.rows * size.experts * size.used * 8)) continue;
    for (const bool normalises : {false, true}) {
      const auto logits = random_logits(size);
      const Routing routing = route(
          size, logits, normalises ? RouterWeights::normalised : RouterWeights::probabilities);
      std::vector<std::int32_t> ids;
      std::vector<double> weights;
      const auto all = test::to_double(logits);
      for (std::int64_t t = 0; t < size.rows; ++t) {
        const auto row =
            reference::route_row(std::span(all).subspan(at(t * size.experts), at(size.experts)),
                                 at(size.used), normalises);
        ids.insert(ids.end(), row.ids.begin(), row.ids.end());
        weights.insert(weights.end(), row.weights.begin(), row.weights.end());
      }
      EXPECT_EQ(context().read<std::int32_t>(routing.ids), ids) << size.rows;
      test::expect_close(context().read<float>(routing.weights), weights,
                         test::tolerance_of(at(size.experts)), "weights");
    }
  }
}

TEST_P(Router, ChoosesTheLowerNumberAmongEqualsAndNaNLast) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> logits{1, 2, 2, 2, 1,    kNaN, -kInfinity, 3,
                                  0, 0, 0, 0, kNaN, kNaN, kNaN,       kNaN};
  const Routing routing = route({4, 4, 3}, logits, RouterWeights::probabilities);
  EXPECT_THAT(context().read<std::int32_t>(routing.ids),
              ElementsAre(1, 2, 3, 3, 0, 1, 0, 1, 2, 0, 1, 2));
  const auto weights = context().read<float>(routing.weights);
  EXPECT_EQ(weights[0], weights[2]);
  EXPECT_EQ(weights[6], 0.25F);
  EXPECT_TRUE(std::isnan(weights[9]));
}

TEST_P(Router, GivesWeightsOfLogitsWhoseExponentialsOverflow) {
  const Routing routing = route({2, 3, 2}, std::vector<float>{200, 200, -200, -300, -300, -400},
                                RouterWeights::probabilities);
  EXPECT_THAT(context().read<float>(routing.weights), ElementsAre(0.5F, 0.5F, 0.5F, 0.5F));
}

// Every entry has one slot, in the tiles of its expert; entries of an expert keep their order.
TEST_P(Router, PlansASlotForEachEntryInTilesOfOneExpert) {
  for (const RoutingSize& size : kSizes) {
    if (!test::affords(size.rows * size.experts * size.used * 8)) continue;
    const Routing routing = route(size, random_logits(size), RouterWeights::normalised);
    const auto ids = context().read<std::int32_t>(routing.ids);
    const HostPlan plan(context(), routing.plan);
    const std::int64_t tile = routing.plan.tile;
    std::vector<std::int32_t> entries, tile_experts, slots(ids.size()), counts, begins, active;
    for (std::int32_t e = 0; e < size.experts; ++e) {
      begins.push_back(static_cast<std::int32_t>(entries.size()));
      std::int32_t count = 0;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] != e) continue;
        slots[i] = static_cast<std::int32_t>(entries.size());
        entries.push_back(static_cast<std::int32_t>(i));
        ++count;
      }
      if (count > 0) active.push_back(e);
      counts.push_back(count);
      while (entries.size() % at(tile) != 0) entries.push_back(-1);
      tile_experts.resize(entries.size() / at(tile), e);
    }
    begins.push_back(static_cast<std::int32_t>(entries.size()));
    ASSERT_LE(entries.size(), plan.entries.size()) << size.rows;
    entries.resize(plan.entries.size(), -1);
    tile_experts.resize(plan.tile_experts.size(), -1);
    active.resize(plan.active.size(), -1);
    EXPECT_EQ(plan.entries, entries) << size.rows;
    EXPECT_EQ(plan.slots, slots) << size.rows;
    EXPECT_EQ(plan.tile_experts, tile_experts) << size.rows;
    EXPECT_EQ(plan.counts, counts) << size.rows;
    EXPECT_EQ(plan.begins, begins) << size.rows;
    EXPECT_EQ(plan.active, active) << size.rows;
  }
}

// All rows choose the same experts: the others have no slots.
TEST_P(Router, PlansRowsThatAllChooseTheSameExperts) {
  constexpr RoutingSize kSize{70, 9, 2};
  std::vector<float> logits(at(kSize.rows * kSize.experts));
  for (std::int64_t t = 0; t < kSize.rows; ++t) logits[at(t * kSize.experts) + 8] = 1;
  const Routing routing = route(kSize, logits, RouterWeights::normalised);
  const HostPlan plan(context(), routing.plan);
  EXPECT_THAT(plan.counts, ElementsAre(70, 0, 0, 0, 0, 0, 0, 0, 70));
  EXPECT_THAT(plan.active, ElementsAre(0, 8, -1, -1, -1, -1, -1, -1, -1));
  EXPECT_EQ(plan.slots[0], plan.begins[8]);
}

TEST_P(Router, BackwardAgreesWithCentralDifferences) {
  for (const RoutingSize& size : {RoutingSize{1, 1, 1}, {3, 5, 2}, {2, 7, 7}, {67, 6, 3}}) {
    for (const bool normalises : {false, true}) {
      const auto weights = normalises ? RouterWeights::normalised : RouterWeights::probabilities;
      const auto logits = random_logits(size);
      const auto dweights = test::random_values(at(size.rows * size.used), 4);
      const Routing routing = route(size, logits, weights);
      const test::Output dlogits(context(), {size.rows, size.experts});
      run([&](Batch& batch) {
        record_router_backward(batch, dlogits.tensor(),
                               test::upload(context(), {size.rows, size.experts}, logits), routing,
                               test::upload(context(), {size.rows, size.used}, dweights), weights);
      });
      std::vector<double> want;
      for (std::int64_t t = 0; t < size.rows; ++t) {
        const auto row =
            test::to_double(std::span(logits).subspan(at(t * size.experts), at(size.experts)));
        const auto of_row = test::central_differences(
            [&](const std::vector<double>& x) {
              const auto routed = reference::route_row(x, at(size.used), normalises);
              double sum = 0;
              for (std::size_t k = 0; k < routed.weights.size(); ++k) {
                sum += routed.weights[k] * double{dweights[at(t * size.used) + k]};
              }
              return sum;
            },
            row);
        want.insert(want.end(), of_row.begin(), of_row.end());
      }
      test::expect_close(dlogits.values(), want, 1e-5, "dlogits");
    }
  }
}

TEST_P(Router, RefusesSizesThatDoNotFit) {
  const auto error = [](const RoutingSize& size) {
    return test::error_of([&] { (void)test::routing_of(context(), size); });
  };
  EXPECT_THAT(error({3, 4, 5}), HasSubstr("got 3, 4 and 5"));
  EXPECT_THAT(error({0, 4, 1}), HasSubstr("must be positive"));
  const Routing routing = test::routing_of(context(), {3, 4, 2});
  EXPECT_THAT(test::error_of([&] {
                Batch batch(context());
                record_router(batch, routing,
                              context().allocate({3, 5}, DType::f32, MemoryTag::scratch),
                              RouterWeights::normalised);
              }),
              HasSubstr("logits must be f32 [3, 4]"));
}

}  // namespace
}  // namespace clora
