#include "ops/gemm/gemm_parts.hpp"

#include <utility>

#include "clora/ops/rowwise/columns.hpp"
#include "ops/activations.hpp"

namespace clora {
namespace {

using RecordProduct = void (*)(Batch&, GemmProduct);

// Columns [begin, begin + count) of a matrix.
struct ColumnRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

// The columns as a view, if kernels can read and write them in place; else an empty tensor.
Tensor view_of(const Context& context, const Tensor& x, const ColumnRange& range) {
  const std::size_t offset = bytes_of(x.type(), static_cast<std::size_t>(range.begin));
  const bool is_aligned = (x.offset_bytes() + offset) % context.device().base_alignment_bytes == 0;
  if (x.shape()[0] != 1 || !is_aligned) return {};
  return x.slice(offset, {1, range.count}, x.type());
}

Tensor temporary_of(Batch& batch, const Tensor& x, const ColumnRange& range) {
  return batch.temporary({x.shape()[0], range.count}, x.type(), "columns of a part");
}

Tensor columns_of(Batch& batch, const Tensor& x, const ColumnRange& range) {
  if (x.empty()) return {};
  if (const Tensor view = view_of(batch.context(), x, range); !view.empty()) return view;
  const Tensor columns = temporary_of(batch, x, range);
  record_take_columns(batch, columns, x, range.begin);
  return columns;
}

// The same of a stack of matrices, or of one.
Tensor columns_of_stack(Batch& batch, const Tensor& x, const ColumnRange& range) {
  if (x.empty() || x.shape().rank() == 2) return columns_of(batch, x, range);
  const std::int64_t matrices = x.shape()[0], rows = x.shape()[1];
  const Tensor all = columns_of(batch, x.reshape({matrices * rows, x.shape()[2]}), range);
  return all.reshape({matrices, rows, range.count});
}

// The bf16 copy of u is left out: its columns would be a further copy, of what a cast gives.
LowRankTerm low_rank_of(Batch& batch, const LowRankTerm& term, const ColumnRange& range) {
  LowRankTerm columns = term;
  columns.u = columns_of_stack(batch, term.u, range);
  columns.u_bf16 = {};
  return columns;
}

// Those of a vector, such as the bias.
Tensor elements_of(Batch& batch, const Tensor& vector, const ColumnRange& range) {
  if (vector.empty()) return {};
  return columns_of(batch, vector.reshape({1, vector.elements()}), range).reshape({range.count});
}

// y's columns of one part. A copy of the residual is overwritten by the result.
void record_columns(Batch& batch, const GemmProduct& p, const Tensor& part,
                    const ColumnRange& range, RecordProduct record) {
  GemmProduct of_part = p;
  of_part.w = part;
  of_part.epilogue.bias = elements_of(batch, p.epilogue.bias, range);
  of_part.epilogue.column_scale = elements_of(batch, p.epilogue.column_scale, range);
  of_part.epilogue.low_rank = low_rank_of(batch, p.low_rank(), range);
  of_part.epilogue.residual = columns_of(batch, p.epilogue.residual, range);
  const Tensor view = view_of(batch.context(), p.y, range);
  if (!view.empty()) {
    of_part.y = view;
    return record(batch, of_part);
  }
  const Tensor& residual = of_part.epilogue.residual;
  of_part.y = residual.empty() ? temporary_of(batch, p.y, range) : residual;
  record(batch, of_part);
  record_put_columns(batch, p.y, range.begin, of_part.y);
}

// The first part computes the shrink from x, the others read its s.
void record_forward(Batch& batch, GemmProduct p, const Weight& w, RecordProduct record) {
  ColumnRange range;
  for (const Tensor& part : w.parts()) {
    range.count = part.shape()[0];
    record_columns(batch, p, part, range, record);
    p.epilogue.low_rank.a = {};
    p.epilogue.low_rank.a_bf16 = {};
    range.begin += range.count;
  }
}

// s = a_scale * dy a^T, which sums over the rows of all parts.
void record_shrink(Batch& batch, LowRankTerm& term, const Tensor& dy, RecordProduct record) {
  if (term.a.empty()) return;
  record(
      batch,
      {.y = term.s, .x = dy, .w = std::exchange(term.a, {}), .epilogue = {.scale = term.a_scale}});
  term.a_bf16 = {};
}

void record_backward(Batch& batch, const GemmProduct& p, const Weight& w, RecordProduct record) {
  GemmProduct of_part = p;
  record_shrink(batch, of_part.epilogue.low_rank, p.x, record);
  const bool accumulates = !p.epilogue.residual.empty();
  of_part.y = accumulates ? record_upcast(batch, p.y) : f32_result(batch, p.y);
  if (accumulates) of_part.epilogue.residual = of_part.y;
  ColumnRange range;
  for (const Tensor& part : w.parts()) {
    range.count = part.shape()[0];
    of_part.x = columns_of(batch, p.x, range);
    of_part.w = part;
    record(batch, of_part);
    of_part.epilogue.residual = of_part.y;
    of_part.epilogue.low_rank = {};
    range.begin += range.count;
  }
  record_result(batch, p.y, of_part.y);
}

}  // namespace

void record_gemm_in_parts(Batch& batch, const GemmProduct& p, const Weight& w,
                          RecordProduct record) {
  if (p.backward) return record_backward(batch, p, w, record);
  record_forward(batch, p, w, record);
}

}  // namespace clora
