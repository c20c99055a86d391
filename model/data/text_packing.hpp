// Packing of texts that become vectors: each text is a document of its own, and one of its rows is
// labelled, so that the labelled rows are the texts in order. Pure host arithmetic; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "clora/model/configuration/model_config.hpp"
#include "clora/model/data/packing.hpp"
#include "clora/model/data/records.hpp"

namespace clora {

struct TextPacking {
  Pooling pooling = Pooling::mean;  // the labelled row is the last one, else the first
  bool is_causal = false;           // a row attends to no later one
};
TextPacking text_packing(const ModelConfig& config, Pooling pooling);

// Appends the rows of a text with this target. REQUIRES: ids is not empty; target >= 0.
void append_text(PackedRows& packed, std::span<const std::int32_t> ids, std::int32_t target,
                 const TextPacking& how);

// The texts of a record of text pairs, in order: anchor, positive and negative (records.hpp).
std::vector<std::span<const std::int32_t>> texts_of(const RecordView& record);

// Packs the texts of the chosen records for the contrastive loss: the target of an anchor is the
// number of its positive, that of another text its own number (ops/loss/contrastive.hpp).
// target_count is the number of anchors. REQUIRES: records of text pairs.
PackedRows pack_text_pairs(const Records& records, std::span<const std::size_t> indices,
                           const TextPacking& how);

}  // namespace clora
