// How well vectors of texts find what belongs together: recall of the anchors' positives, and
// Spearman's rank correlation of cosines with the scores of pairs.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "clora/lora/adapter.hpp"
#include "clora/model/data/records.hpp"
#include "clora/model/transformer/language_model.hpp"

namespace clora {

// The share of anchors whose positive is among the k nearest of all positives, by the cosine.
// Positives that are equally near count as one place.
struct Recall {
  double at_1 = 0, at_5 = 0, at_10 = 0;
};

// anchors and positives [N, width], of length 1: row i of the positives belongs to anchor i.
Recall recall_of(std::span<const float> anchors, std::span<const float> positives,
                 std::size_t width);

// The correlation of the ranks of a and b, where equal values have their mean rank. NaN if all
// values of one are equal. REQUIRES: a and b have the same number of values.
double spearman(std::span<const double> a, std::span<const double> b);

struct EmbeddingScores {
  std::optional<Recall> recall;    // of pairs and triplets
  std::optional<double> spearman;  // of scored pairs
};

// Embeds the records of text pairs (RecordOptions::pairs). adapter may be null. Waits. Errors:
// those of Embedder::embed().
EmbeddingScores embedding_scores(LanguageModel& model, const Adapter* adapter, Pooling pooling,
                                 const Records& records);

}  // namespace clora
