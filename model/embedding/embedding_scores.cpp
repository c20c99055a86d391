#include "clora/model/embedding/embedding_scores.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "clora/model/embedding/embedder.hpp"
#include "model/data/text_packing.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

double product(const float* a, const float* b, std::size_t width) {
  return std::inner_product(a, a + width, b, 0.0);
}

// The rank of each value, from 0; equal values have the mean of their ranks.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) {
      ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
    }
    begin = end;
  }
  return ranks;
}

// The vectors of text `number` of each record.
std::vector<float> vectors_of(Embedder& embedder, const Records& records, std::size_t number) {
  std::vector<std::vector<std::int32_t>> texts;
  for (const RecordView record : records.records) {
    const auto ids = texts_of(record).at(number);
    texts.emplace_back(ids.begin(), ids.end());
  }
  return embedder.embed(texts);
}

}  // namespace

Recall recall_of(std::span<const float> anchors, std::span<const float> positives,
                 std::size_t width) {
  require(anchors.size() == positives.size() && !anchors.empty() && anchors.size() % width == 0,
          "recall: as many positives as anchors are required, got {} and {} numbers",
          positives.size(), anchors.size());
  const std::size_t count = anchors.size() / width;
  Recall recall;
  for (std::size_t i = 0; i < count; ++i) {
    const double own = product(&anchors[i * width], &positives[i * width], width);
    std::size_t nearer = 0;
    for (std::size_t j = 0; j < count && nearer < 10; ++j) {
      nearer += product(&anchors[i * width], &positives[j * width], width) > own ? 1 : 0;
    }
    recall.at_1 += nearer < 1 ? 1 : 0;
    recall.at_5 += nearer < 5 ? 1 : 0;
    recall.at_10 += nearer < 10 ? 1 : 0;
  }
  for (double* share : {&recall.at_1, &recall.at_5, &recall.at_10}) {
    *share /= static_cast<double>(count);
  }
  return recall;
}

double spearman(std::span<const double> a, std::span<const double> b) {
  require(a.size() == b.size(), "spearman: as many values of both are required, got {} and {}",
          a.size(), b.size());
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = (static_cast<double>(a.size()) - 1) / 2;  // of ranks
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xy / std::sqrt(xx * yy);
}

EmbeddingScores embedding_scores(LanguageModel& model, const Adapter* adapter, Pooling pooling,
                                 const Records& records) {
  Embedder embedder(model, adapter, {.pooling = pooling, .normalises = true});
  const std::vector<float> first = vectors_of(embedder, records, 0);
  const std::vector<float> second = vectors_of(embedder, records, 1);
  const auto width = static_cast<std::size_t>(embedder.width());
  if (records.scores.empty()) return {recall_of(first, second, width), std::nullopt};
  std::vector<double> cosines;
  for (std::size_t at = 0; at < first.size(); at += width) {
    cosines.push_back(product(&first[at], &second[at], width));
  }
  return {std::nullopt, spearman(cosines, records.scores)};
}

}  // namespace clora
