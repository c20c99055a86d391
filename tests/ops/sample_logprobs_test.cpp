// Log-probabilities of tokens and of the likeliest alternatives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "clora/ops/sample.hpp"
#include "tests/reference/sample_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Logprobs {
  std::vector<float> logprob, top_logprobs;
  std::vector<std::int32_t> top_ids;
};

class SampleLogprobs : public test::OpTest {
 protected:
  Logprobs logprobs(const std::vector<float>& logits, const std::vector<std::int32_t>& tokens,
                    std::int64_t k) {
    const auto rows = static_cast<std::int64_t>(tokens.size());
    const auto size = static_cast<std::int64_t>(logits.size()) / rows;
    const test::Output logprob(context(), {rows});
    const test::Output top(context(), {rows, std::max<std::int64_t>(k, 1)});
    const std::vector<std::int32_t> before(
        static_cast<std::size_t>(rows * std::max<std::int64_t>(k, 1)), -9);
    const Tensor ids = test::upload(context(), {rows, std::max<std::int64_t>(k, 1)}, before);
    run([&](Batch& batch) {
      record_logprobs(
          batch, {logprob.tensor(), k > 0 ? ids : Tensor(), k > 0 ? top.tensor() : Tensor()},
          test::upload(context(), {rows, size}, logits), test::upload(context(), {rows}, tokens));
    });
    return {logprob.values(), top.values(), context().read<std::int32_t>(ids)};
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, SampleLogprobs, test::all_variants(), test::variant_name);

// One row's expected values: log-probabilities of all tokens, and their order.
struct Expected {
  std::vector<double> logprobs;
  std::vector<std::size_t> order;

  explicit Expected(std::span<const float> row) : logprobs(row.begin(), row.end()) {
    order = reference::ranking(logprobs);
    const double largest = logprobs[order[0]];
    double sum = 0;
    for (const double x : logprobs) sum += std::exp(x - largest);
    for (double& x : logprobs) x -= largest + std::log(sum);
  }
};

TEST_P(SampleLogprobs, GivesThoseOfTheTokenAndOfTheLikeliestOfEachRow) {
  for (const std::size_t size : {1, 5, 17, 64, 1009, 49152}) {
    for (const std::size_t rows : {1, 2, 7}) {
      if (!test::affords(16.0 * static_cast<double>(rows * size))) continue;
      auto logits = test::random_values(rows * size, 2, 6);
      // First by rank, lower id first.
      if (size > 20) logits[19] = logits[3] = logits[7] = 6.5F;
      std::vector<std::int32_t> tokens;
      for (std::size_t n = 0; n < rows; ++n) {
        tokens.push_back(static_cast<std::int32_t>((n + size / 2) % size));
      }
      for (const std::size_t k : {0, 1, 5, 32}) {
        if (k > size) continue;
        const auto got = logprobs(logits, tokens, static_cast<std::int64_t>(k));
        for (std::size_t n = 0; n < rows; ++n) {
          const Expected want(std::span<const float>(logits).subspan(n * size, size));
          EXPECT_NEAR(got.logprob[n], want.logprobs[static_cast<std::size_t>(tokens[n])], 1e-5);
          for (std::size_t i = 0; i < k; ++i) {
            const std::size_t id = want.order[i];
            ASSERT_EQ(got.top_ids[n * k + i], static_cast<std::int32_t>(id))
                << size << " row " << n << " place " << i << " of " << k;
            ASSERT_NEAR(got.top_logprobs[n * k + i], want.logprobs[id], 1e-5);
          }
        }
      }
    }
  }
}

TEST_P(SampleLogprobs, ListsTokensOfNoProbability) {
  const std::vector<float> logits{-500.0F, 100.0F, -300.0F, -1e30F, -300.0F};
  const auto got = logprobs(logits, {1}, 5);
  EXPECT_EQ(got.top_ids, (std::vector<std::int32_t>{1, 2, 4, 0, 3}));
  EXPECT_EQ(got.top_logprobs[1], -400);
}

TEST_P(SampleLogprobs, ListsTheLowestIdsOfEqualLogits) {
  const std::vector<float> logits(test::affords(1e6) ? 5000 : 200, 1.0F);
  EXPECT_EQ(logprobs(logits, {1}, 4).top_ids, (std::vector<std::int32_t>{0, 1, 2, 3}));
}

TEST_P(SampleLogprobs, ARowWithoutATokenGetsNaNAndNoAlternatives) {
  const auto one = test::random_values(20, 2, 6);
  std::vector<float> logits;
  for (int n = 0; n < 4; ++n) logits.insert(logits.end(), one.begin(), one.end());
  const auto got = logprobs(logits, {kNoToken, 4, 20, kNothingAllowed}, 2);
  const Expected want(one);
  for (const std::size_t n : {0U, 2U, 3U}) {
    EXPECT_TRUE(std::isnan(got.logprob[n]));
    EXPECT_EQ(got.top_ids[2 * n], -9);
    EXPECT_TRUE(std::isnan(got.top_logprobs[2 * n + 1]));
  }
  EXPECT_NEAR(got.logprob[1], want.logprobs[4], 1e-5);
  EXPECT_EQ(got.top_ids[2], static_cast<std::int32_t>(want.order[0]));
}

TEST_P(SampleLogprobs, NeverListsLogitsThatAreNotFinite) {
  const auto got = logprobs({kNaN, 1.0F, kNaN, 3.0F, 2.0F}, {3}, 5);
  EXPECT_TRUE(std::isnan(got.logprob[0]));
  EXPECT_THAT(got.top_ids, testing::Each(testing::AnyOf(1, 3, 4, kNoToken)));
}

TEST_P(SampleLogprobs, RefusesShapesThatDoNotFit) {
  const auto make = [&](Shape shape, DType type) {
    return context().allocate(shape, type, MemoryTag::scratch);
  };
  const Tensor logits = make({2, 9}, DType::f32), tokens = make({2}, DType::i32);
  const Tensor two = make({2}, DType::f32), ten = make({2, 10}, DType::i32);
  const Tensor ids = make({2, 3}, DType::i32);
  const auto refused = [&](const LogprobOutputs& outputs, const Tensor& t) {
    return test::error_of([&] {
      Batch batch(context());
      record_logprobs(batch, outputs, logits, t);
    });
  };
  EXPECT_THAT(refused({{}, {}, {}}, tokens), HasSubstr("logprob must be f32 [2]"));
  EXPECT_THAT(refused({two, {}, {}}, two), HasSubstr("tokens must be i32 [2]"));
  EXPECT_THAT(refused({two, ten, logits}, tokens),
              HasSubstr("top_ids must be i32 [2, K] with K from 1 to 9"));
  EXPECT_THAT(refused({two, tokens, two}, tokens), HasSubstr("top_ids must be i32 [2, K]"));
  EXPECT_THAT(refused({two, {}, logits}, tokens), HasSubstr("top_ids must be i32 [2, K]"));
  EXPECT_THAT(refused({two, ids, two}, tokens), HasSubstr("top_logprobs must be f32 [2, 3]"));
  const Tensor wide = make({2, 50}, DType::f32), many = make({2, 33}, DType::i32);
  EXPECT_THAT(test::error_of([&] {
                Batch batch(context());
                record_logprobs(batch, {two, many, wide}, wide, tokens);
              }),
              HasSubstr("K from 1 to 32, got i32 [2, 33]"));
}

}  // namespace
}  // namespace clora
