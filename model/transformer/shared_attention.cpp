#include "model/transformer/shared_attention.hpp"

#include "clora/ops/rowwise/gather_rows.hpp"

namespace clora {
namespace {

// Of x [T, H, E].
Tensor temporary_like(Batch& batch, const Tensor& x, std::int64_t rows) {
  return batch.temporary({rows, x.shape()[1], x.shape()[2]}, x.type(), "rows of attention");
}

Tensor gathered(Batch& batch, const Tensor& x, const Tensor& source) {
  const Tensor rows = temporary_like(batch, x, source.elements());
  record_gather_rows(batch, rows, x, source);
  return rows;
}

AttentionInputs gathered(Batch& batch, AttentionInputs in, const SharedRows& shared) {
  for (Tensor* x : {&in.q, &in.k, &in.v}) *x = gathered(batch, *x, shared.source);
  return in;
}

}  // namespace

void record_shared_attention(Batch& batch, const Tensor& y, const Tensor& log_sum_exp,
                             const AttentionInputs& in, const SharedRows& shared) {
  const AttentionInputs rows = gathered(batch, in, shared);
  const Tensor all = temporary_like(batch, y, shared.source.elements());
  record_attention(batch, all, log_sum_exp, rows);
  record_gather_rows(batch, y, all, shared.at);
}

// A row's gradient as a query comes from its first row of attention, since the output of the second
// one is not used; that as a key and a value comes from both.
void record_shared_attention_backward(Batch& batch, const AttentionGradients& d, const Tensor& dy,
                                      const Tensor& y, const Tensor& log_sum_exp,
                                      const AttentionInputs& in, const SharedRows& shared) {
  const AttentionInputs rows = gathered(batch, in, shared);
  const Tensor dy_rows = gathered(batch, dy, shared.own);
  const Tensor y_rows = gathered(batch, y, shared.source);
  const std::int64_t count = shared.source.elements();
  const AttentionGradients all{temporary_like(batch, d.dq, count),
                               temporary_like(batch, d.dk, count),
                               temporary_like(batch, d.dv, count)};
  record_attention_backward(batch, all, dy_rows, y_rows, log_sum_exp, rows);
  record_gather_rows(batch, d.dq, all.dq, shared.at);
  record_gather_row_sums(batch, d.dk, all.dk, shared.at, shared.again);
  record_gather_row_sums(batch, d.dv, all.dv, shared.at, shared.again);
}

}  // namespace clora
