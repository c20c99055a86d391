#include "clora/ops/experts/load_balance.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/reference/experts_reference.hpp"
#include "tests/support/routed_rows.hpp"

namespace clora {
namespace {

using testing::HasSubstr;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Case {
  std::int64_t layers;
  RoutingSize size;
  std::int64_t counted;  // of its rows

  std::string text() const {
    return fmt::format("{} layers of {} rows, {} of which count, {} of {} experts", layers,
                       size.rows, counted, size.used, size.experts);
  }
};

// One row and one expert, blocks of rows that are full, one short and one over, padding within a
// block and of whole blocks, fewer experts than items of a group and more.
constexpr Case kCases[] = {{1, {1, 1, 1}, 1},      {2, {7, 5, 4}, 7},      {3, {63, 8, 3}, 63},
                           {1, {64, 3, 1}, 64},    {2, {65, 8, 2}, 65},    {2, {200, 4, 2}, 130},
                           {2, {300, 67, 8}, 101}, {1, {130, 300, 4}, 129}};

class LoadBalanceTest : public test::OpTest {
 protected:
  struct Result {
    float loss;
    std::vector<std::vector<float>> dlogits;  // of each layer
  };
  static constexpr float kWeight = 0.7F, kLossBefore = 2;

  static std::vector<std::vector<float>> random_logits(const Case& c) {
    std::vector<std::vector<float>> layers;
    for (std::int64_t layer = 0; layer < c.layers; ++layer) {
      layers.push_back(test::random_values(at(c.size.rows * c.size.experts),
                                           30 + static_cast<std::uint32_t>(layer), 3));
    }
    return layers;
  }

  // dlogits are those before, `start`, plus the gradient.
  Result compute(const Case& c, const std::vector<std::vector<float>>& logits, float start) {
    const Shape shape{c.size.rows, c.size.experts};
    const Tensor scalars =
        test::upload(context(), {2}, std::vector<float>{kWeight, static_cast<float>(c.counted)});
    const Tensor loss = test::upload(context(), {1}, std::vector<float>{kLossBefore});
    const LoadBalance load = make_load_balance(
        c.layers, c.size, scalars,
        [&](Shape of, DType, std::string_view) { return test::Output(context(), of).tensor(); });
    std::vector<Tensor> dlogits;
    run([&](Batch& batch) {
      std::vector<Tensor> inputs;
      for (std::int64_t layer = 0; layer < c.layers; ++layer) {
        inputs.push_back(test::upload(context(), shape, logits[at(layer)]));
        const Routing routing = test::routing_of(context(), c.size);
        record_router(batch, routing, inputs.back(), RouterWeights::normalised);
        record_load_of_layer(batch, load, layer, inputs.back(), routing.ids);
      }
      record_load_balance_loss(batch, loss, load, c.size.rows);
      for (const Tensor& input : inputs) {
        dlogits.push_back(
            test::upload(context(), shape, std::vector<float>(at(shape.elements()), start)));
        record_load_balance_backward(batch, dlogits.back(), input, load);
      }
    });
    Result result{context().read<float>(loss).front(), {}};
    for (const Tensor& d : dlogits) result.dlogits.push_back(context().read<float>(d));
    return result;
  }

  // The logits of the rows that count, of all layers.
  static std::vector<double> counted_logits(const Case& c,
                                            const std::vector<std::vector<float>>& logits) {
    std::vector<double> all;
    for (const auto& layer : logits) {
      all.insert(all.end(), layer.begin(), layer.begin() + c.counted * c.size.experts);
    }
    return all;
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, LoadBalanceTest, test::all_variants(), test::variant_name);

TEST_P(LoadBalanceTest, AddsTheLossOfTheReferenceOverAllLayersAndTheRowsThatCount) {
  for (const Case& c : kCases) {
    if (!test::affords(c.layers * c.size.rows * c.size.experts * 8)) continue;
    const auto logits = random_logits(c);
    const std::vector<double> all = counted_logits(c, logits);
    const auto load = reference::load_of_experts(all, at(c.size.experts), at(c.size.used));
    const double want = kLossBefore + reference::load_balance_loss(all, load);
    EXPECT_NEAR(compute(c, logits, 0).loss, want, 1e-6 * want) << c.text();
  }
}

TEST_P(LoadBalanceTest, IsTheNumberOfExpertsOfARowIfAllHaveTheSameLoad) {
  constexpr Case kEven{1, {4, 4, 2}, 4};
  const std::vector<float> logits{1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1};
  EXPECT_NEAR(compute(kEven, {logits}, 0).loss, kLossBefore + 2, 1e-6);
}

// The choice of experts does not change with the logits: it has no gradient.
TEST_P(LoadBalanceTest, BackwardAgreesWithCentralDifferencesAndAccumulates) {
  for (const Case& c : kCases) {
    if (c.size.rows * c.size.experts > 1000) continue;  // the reference is quadratic
    const auto logits = random_logits(c);
    const std::vector<double> all = counted_logits(c, logits);
    const auto load = reference::load_of_experts(all, at(c.size.experts), at(c.size.used));
    std::vector<double> want = test::central_differences(
        [&](const std::vector<double>& x) {
          return double{kWeight} * reference::load_balance_loss(x, load);
        },
        all);
    const std::int64_t of_layer = c.counted * c.size.experts;
    const Result first = compute(c, logits, 0), second = compute(c, logits, 1);
    for (std::int64_t layer = 0; layer < c.layers; ++layer) {
      const auto expected = std::span(want).subspan(at(layer * of_layer), at(of_layer));
      const auto counted = [&](const Result& result) {
        return std::span(result.dlogits[at(layer)]).first(at(of_layer));
      };
      test::expect_close(counted(first), expected, 2e-5, c.text());
      for (double& value : expected) ++value;
      test::expect_close(counted(second), expected, 1e-6, c.text() + ", added");
    }
  }
}

TEST_P(LoadBalanceTest, LeavesTheGradientsOfPaddingUnchanged) {
  const Case c = kCases[5];
  const Result result = compute(c, random_logits(c), 1);
  for (const auto& layer : result.dlogits) {
    const auto padding = std::span(layer).subspan(at(c.counted * c.size.experts));
    EXPECT_THAT(padding, testing::Each(1.0F));
    EXPECT_NE(layer.front(), 1.0F);
  }
}

// A loss of two launches apart would differ if the sums had no fixed order.
TEST_P(LoadBalanceTest, GivesTheSameBitsAgain) {
  const Case c = kCases[6];
  if (!test::affords(c.layers * c.size.rows * c.size.experts * 8)) return;
  const auto logits = random_logits(c);
  const Result first = compute(c, logits, 0), second = compute(c, logits, 0);
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(first.dlogits, second.dlogits);
}

TEST_P(LoadBalanceTest, RefusesTensorsThatDoNotFit) {
  const auto allocate = [](Shape shape, DType type, std::string_view) {
    return context().allocate(shape, type, MemoryTag::scratch);
  };
  const auto f32 = [&](Shape shape) { return allocate(shape, DType::f32, ""); };
  const auto i32 = [&](Shape shape) { return allocate(shape, DType::i32, ""); };
  EXPECT_THAT(test::error_of([&] {
                make_load_balance(0, {3, 4, 2}, f32({2}), allocate);
              }),
              HasSubstr("got 0, 3 and 4"));
  EXPECT_THAT(test::error_of([&] {
                make_load_balance(1, {3, 4, 2}, f32({3}), allocate);
              }),
              HasSubstr("scalars must be f32 [2]"));
  const LoadBalance load = make_load_balance(2, {3, 4, 2}, f32({2}), allocate);
  Batch batch(context());
  const auto error = [&](std::int64_t layer, Shape logits, Shape ids) {
    return test::error_of([&] { record_load_of_layer(batch, load, layer, f32(logits), i32(ids)); });
  };
  EXPECT_THAT(error(2, {3, 4}, {3, 2}), HasSubstr("layer must be below 2, got 2"));
  EXPECT_THAT(error(0, {3, 5}, {3, 2}), HasSubstr("logits must be f32 [3, 4]"));
  EXPECT_THAT(error(0, {65, 4}, {65, 2}), HasSubstr("sums must be f32 [2, 2, 2, 4]"));
  EXPECT_THAT(error(0, {3, 4}, {4, 2}), HasSubstr("ids must be i32 [3, 2]"));
  EXPECT_THAT(test::error_of([&] { record_load_balance_loss(batch, f32({2}), load, 3); }),
              HasSubstr("loss must be f32 [1]"));
  EXPECT_THAT(test::error_of([&] {
                record_load_balance_backward(batch, f32({4, 4}), f32({3, 4}), load);
              }),
              HasSubstr("dlogits must be f32 [3, 4]"));
}

}  // namespace
}  // namespace clora
