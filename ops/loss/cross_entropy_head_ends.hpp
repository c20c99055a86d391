// cl/loss/cross_entropy_head.cl: the launches before and after the chunks of a head fused with its
// loss, for the implementations that process chunks of the vocabulary.
#pragma once

#include "clora/ops/gemm/bf16_rows.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/loss/cross_entropy_head_dispatch.hpp"

namespace clora {

// What the chunks read and write, for rows [T].
struct HeadSums {
  Tensor target_logits;  // [T], times log2(e)
  Tensor references;     // [T]: at first the target logits
  Tensor parts;          // [tiles, T, 2]: sums of exponentials, and their references
  // Of label smoothing, else empty.
  Tensor mean = {};         // [D]: of the head's rows
  Tensor mean_logits = {};  // [T]
};
// REQUIRES: no label smoothing of capped logits.
HeadSums head_sums_of(Batch& batch, const HeadLoss& head, std::int64_t tiles);

// Sets target_logits and references, and the means. x: head.in.x in bf16.
void record_head_references(Batch& batch, const HeadLoss& head, const Bf16Rows& x,
                            const HeadSums& sums);

// The products of the exponentials with the head: dx itself, or slices of split_rows rows that are
// summed.
struct HeadProducts {
  Tensor slices;
  std::int64_t splits = 1;
  std::int64_t split_rows = 0;
};
// Sets loss and, if wanted, dx.
void record_head_end(Batch& batch, const HeadLoss& head, const HeadSums& sums,
                     const HeadProducts& products);

// A self-test's head of so many entries, more than 512: several tiles in each dimension, the last
// ones partial, chunks of 256 entries, and losses beyond the range of one reference. capped: with a
// soft cap that matters for these logits. terms: LossTerms whose weights are replaced by a test's.
void test_head_loss(SelfTest& test, bool gradient, std::int64_t entries, const LossTerms& terms,
                    bool capped = false);
// " with z-loss" and the like: what the self-test of a head with these terms is called.
std::string_view tested_terms(const LossTerms& terms);

// Tiles of the vocabulary per chunk: `most`, or somewhat fewer if the last round of work-groups
// would leave much of the GPU idle.
std::int64_t head_chunk_tiles(std::int64_t row_tiles, std::int64_t tiles, std::int64_t most,
                              std::int64_t units);

}  // namespace clora
