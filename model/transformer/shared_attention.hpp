// Attention of documents that have rows in common (PackedRows::attends): the queries, keys and
// values of T rows are gathered into A rows of attention, in which each document is complete, and
// the results are gathered back. Temporaries of A rows live for one call only.
#pragma once

#include "clora/model/transformer/recorded_rows.hpp"
#include "clora/ops/attention/attention.hpp"

namespace clora {

// Overwrites y [T, H, E] and log_sum_exp [A, H]. in: q, k and v of T rows; all else of rows of
// attention.
void record_shared_attention(Batch& batch, const Tensor& y, const Tensor& log_sum_exp,
                             const AttentionInputs& in, const SharedRows& shared);

// Overwrites the gradients, each of T rows, from dy [T, H, E]. y, log_sum_exp: of the forward.
void record_shared_attention_backward(Batch& batch, const AttentionGradients& d, const Tensor& dy,
                                      const Tensor& y, const Tensor& log_sum_exp,
                                      const AttentionInputs& in, const SharedRows& shared);

}  // namespace clora
