#include "clora/model/embedding/embedding_scores.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "clora/model/embedding/embedder.hpp"
#include "clora/model/training/evaluator.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/owned_records.hpp"
#include "tests/support/test_models.hpp"

namespace clora {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

// Of angles in degrees.
Floats unit_vectors(const std::vector<double>& angles) {
  Floats rows;
  for (const double angle : angles) {
    rows.push_back(static_cast<float>(std::cos(angle * 0.017453292519943295)));
    rows.push_back(static_cast<float>(std::sin(angle * 0.017453292519943295)));
  }
  return rows;
}

// Anchor i is at i degrees. Its positive is at once the nearest one, the second, the sixth (five
// are nearer) and the eleventh.
TEST(Recall, CountsThePositivesThatAreNearer) {
  const Floats anchors = unit_vectors({0, 100, 200, 300});
  const Floats nearest = unit_vectors({1, 101, 201, 301});
  const Recall all = recall_of(anchors, nearest, 2);
  EXPECT_EQ(all.at_1, 1);
  EXPECT_EQ(all.at_10, 1);
  const Recall half = recall_of(anchors, unit_vectors({30, 1, 201, 301}), 2);
  EXPECT_EQ(half.at_1, 0.5);  // 1 degree is nearer to anchor 0, 30 degrees to anchor 1
  EXPECT_EQ(half.at_5, 1);
}

TEST(Recall, CountsTheFirstFiveAndTen) {
  std::vector<double> angles(12);
  for (std::size_t i = 0; i < 12; ++i) angles[i] = static_cast<double>(i);
  // All anchors are at 0 degrees, so positive i has i nearer ones.
  const Recall recall =
      recall_of(unit_vectors(std::vector<double>(12, 0)), unit_vectors(angles), 2);
  EXPECT_DOUBLE_EQ(recall.at_1, 1.0 / 12);
  EXPECT_DOUBLE_EQ(recall.at_5, 5.0 / 12);
  EXPECT_DOUBLE_EQ(recall.at_10, 10.0 / 12);
}

TEST(Recall, CountsEqualPositivesAsOnePlace) {
  const Recall recall = recall_of(unit_vectors({0, 0}), unit_vectors({7, 7}), 2);
  EXPECT_EQ(recall.at_1, 1);
  EXPECT_THAT(test::error_of([] { (void)recall_of(Floats(2), Floats(4), 2); }),
              testing::HasSubstr("as many positives as anchors"));
}

TEST(Spearman, IsTheCorrelationOfRanks) {
  EXPECT_DOUBLE_EQ(spearman(Doubles{1, 2, 3}, Doubles{10, 100, 1000}), 1);
  EXPECT_DOUBLE_EQ(spearman(Doubles{1, 2, 3}, Doubles{3, 2, 1}), -1);
  // 1 - 6 * (1 + 1 + 0 + 0) / (4 * 15)
  EXPECT_DOUBLE_EQ(spearman(Doubles{1, 2, 3, 4}, Doubles{2, 1, 3, 4}), 0.8);
}

// scipy.stats.spearmanr of scipy 1.17.1.
TEST(Spearman, GivesEqualValuesTheirMeanRank) {
  EXPECT_NEAR(spearman(Doubles{1, 2, 2, 3, 5, 5, 5}, Doubles{2, 1, 4, 4, 3, 6, 6}),
              0.6764666413954515, 1e-12);
  EXPECT_NEAR(spearman(Doubles{0, 0, 1, 1, 0}, Doubles{.1, .4, .3, .9, .2}), 0.5773502691896257,
              1e-12);
  EXPECT_TRUE(std::isnan(spearman(Doubles{1, 1}, Doubles{1, 2})));
}

// Texts and their own copies: every copy is the nearest.
TEST(EmbeddingScores, AreThoseOfTheEmbeddersVectors) {
  const test::TemporaryFolder folder;
  test::write_family_model(folder / "model", test::encoder_models().front());
  test::OpenModel open(folder / "model");
  Records records;
  std::vector<std::vector<std::int32_t>> texts;
  for (std::int32_t i = 0; i < 6; ++i) {
    records.records.push_back({{i, 7 * i, 9, i, 7 * i, 9}, {1, 0, 0, 1, 0, 0}});
    texts.push_back({i, 7 * i, 9});
  }
  const EmbeddingScores same = embedding_scores(open.model, nullptr, Pooling::mean, records);
  ASSERT_TRUE(same.recall.has_value());
  EXPECT_EQ(same.recall->at_1, 1);
  EXPECT_FALSE(same.spearman.has_value());

  // Pairs of the first text with each, scored by their cosines.
  Embedder embedder(open.model, nullptr);
  const Floats vectors = embedder.embed(texts);
  const auto width = static_cast<std::size_t>(embedder.width());
  std::vector<Record> pairs = test::owned(records.records);
  for (std::size_t i = 0; i < 6; ++i) {
    std::copy_n(texts[0].begin(), 3, pairs[i].ids.begin());
    double cosine = 0;
    for (std::size_t d = 0; d < width; ++d) cosine += double{vectors[d]} * vectors[i * width + d];
    records.scores.push_back(-cosine);
  }
  records.records = test::store_of(pairs);
  const EmbeddingScores scored = embedding_scores(open.model, nullptr, Pooling::mean, records);
  EXPECT_DOUBLE_EQ(scored.spearman.value(), -1);
  const EvalResult result =
      Evaluator(open.model, nullptr, nullptr, ContrastiveLoss{}).evaluate(records);
  EXPECT_DOUBLE_EQ(result.embedding.spearman.value(), -1);
  EXPECT_TRUE(std::isnan(result.loss));
}

}  // namespace
}  // namespace clora
