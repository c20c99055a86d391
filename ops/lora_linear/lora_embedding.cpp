#include "clora/ops/lora_linear/lora_embedding.hpp"

#include <algorithm>
#include <cmath>

#include "ops/activations.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::string_view kOp = "lora_embedding";
constexpr std::size_t kGroup = 64;
constexpr std::uint64_t kMaxItems = std::uint64_t{1} << 30U;

void require_inputs(const Tensor& y, const Tensor& ids, const LoraWeights& lora, float factor) {
  require(lora.row_groups.empty() && lora.column_scale.empty(),
          "{}: rows of several adapters and factors of columns (DoRA) are not supported", kOp);
  require(!lora.a.empty() && lora.a.shape().rank() == 2 && lora.a.elements() > 0,
          "{}: lora.a must be a matrix [R, V], got {}", kOp,
          lora.a.empty() ? "nothing" : lora.a.text());
  require(!y.empty() && y.shape().rank() == 2 && y.elements() > 0,
          "{}: y must be a matrix [T, D], got {}", kOp, y.empty() ? "nothing" : y.text());
  require_tensor(kOp, "lora.a", lora.a, lora.a.shape());
  require_tensor(kOp, "lora.bt", lora.bt, {lora.rank(), y.shape()[1]});
  require_tensor(kOp, "ids", ids, {y.shape()[0]}, DType::i32);
  require(std::isfinite(factor), "{}: the factor must be finite, got {}", kOp, factor);
}

// One work-item for each element of s, or fewer that take several.
Launch launch_of(Batch& batch, std::string_view function, const Tensor& s, std::string label) {
  const auto n = static_cast<std::uint64_t>(s.elements());
  const auto elements = static_cast<double>(n);
  return {batch.context().kernel("lora_embedding.cl", function),
          {{round_up(std::min(n, kMaxItems), kGroup), 1, 1}, {kGroup, 1, 1}},
          {elements, 12 * elements},
          std::move(label)};
}

Tensor record_links(Batch& batch, const Tensor& ids) {
  const std::int64_t tokens = ids.elements();
  const Tensor links = batch.temporary({tokens, 2}, DType::i32, "tokens with the same id");
  const auto count = static_cast<double>(tokens);
  Launch launch{batch.context().kernel("lora_embedding.cl", "lora_embedding_links"),
                {{round_up(static_cast<std::size_t>(tokens), kGroup), 1, 1}, {kGroup, 1, 1}},
                {0, 12 * count},
                "lora_embedding/links"};
  batch.launch(std::move(launch), links, ids, u32(tokens));
  return links;
}

// Adds the rows of ds [T, R] to the elements of d that steps of rows and ids address.
void record_sums_by_id(Batch& batch, const Tensor& d, const Tensor& ds, const Tensor& ids,
                       std::int64_t vocabulary, std::int64_t row_step, std::int64_t id_step,
                       float factor) {
  const Tensor links = record_links(batch, ids);
  batch.launch(launch_of(batch, "lora_embedding_gradient", ds, "lora_embedding/gradient"), d, ds,
               ids, links, static_cast<std::uint64_t>(ds.elements()), u32(ds.shape()[1]),
               u32(vocabulary), u32(row_step), u32(id_step), factor);
}

}  // namespace

void record_lora_embedding(Batch& batch, const Tensor& y, const Tensor& s, const Tensor& ids,
                           const LoraWeights& lora, float factor) {
  require_inputs(y, ids, lora, factor);
  require_tensor(kOp, "y", y, y.shape());
  require_tensor(kOp, "s", s, {y.shape()[0], lora.rank()});
  batch.launch(launch_of(batch, "lora_embedding_rows", s, "lora_embedding/forward"), s, ids, lora.a,
               static_cast<std::uint64_t>(s.elements()), u32(lora.rank()), u32(lora.a.shape()[1]),
               lora.scale * factor);
  record_gemm_backward(batch, y, s, lora.bt, Accumulate::yes);
}

void record_lora_embedding_backward(Batch& batch, const LoraGradients& gradients, const Tensor& dy,
                                    const LoraEmbeddingSaved& saved, const LoraWeights& lora,
                                    float factor) {
  const auto& [ids, s] = saved;
  require_inputs(dy, ids, lora, factor);
  require_any_activation(kOp, "dy", dy, dy.shape());
  require_tensor(kOp, "saved.s", s, {dy.shape()[0], lora.rank()});
  require_tensor(kOp, "gradients.da", gradients.da, lora.a.shape());
  require_tensor(kOp, "gradients.dbt", gradients.dbt, lora.bt.shape());
  record_lora_gradient(batch, gradients.dbt, s, dy, 1);
  const Tensor ds = batch.temporary(s.shape(), DType::f32, "lora ds");
  record_lora_shrink(batch, ds, dy, lora.bt, lora.scale * factor);
  const std::int64_t vocabulary = lora.a.shape()[1];
  record_sums_by_id(batch, gradients.da, ds, ids, vocabulary, vocabulary, 1, 1);
}

void record_table_gradient(Batch& batch, const Tensor& dtable, const Tensor& dy, const Tensor& ids,
                           float factor) {
  constexpr std::string_view kTable = "table_gradient";
  require(!dy.empty() && dy.shape().rank() == 2 && dy.elements() > 0,
          "{}: dy must be a matrix [T, D], got {}", kTable, dy.empty() ? "nothing" : dy.text());
  require(!dtable.empty() && dtable.shape().rank() == 2 && dtable.elements() > 0,
          "{}: dtable must be a matrix [V, D], got {}", kTable,
          dtable.empty() ? "nothing" : dtable.text());
  const std::int64_t width = dy.shape()[1];
  require_tensor(kTable, "dy", dy, dy.shape());
  require_tensor(kTable, "dtable", dtable, {dtable.shape()[0], width});
  require_tensor(kTable, "ids", ids, {dy.shape()[0]}, DType::i32);
  require(std::isfinite(factor), "{}: the factor must be finite, got {}", kTable, factor);
  record_sums_by_id(batch, dtable, dy, ids, dtable.shape()[0], 1, width, factor);
}

}  // namespace clora
