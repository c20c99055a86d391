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
constexpr std::int64_t kMaxTokenGroups = 1 << 15;  // GPUs support 65535 in the second dimension
// Of a work-group.
struct Tile {
  std::int64_t columns, tokens;
};
constexpr Tile kRankTile{8, 8}, kColumnTile{64, 1};

void require_inputs(const Tensor& y, const Tensor& ids, const LoraWeights& lora, float factor) {
  require(lora.column_scale.empty(), "{}: factors of columns (DoRA) are not supported", kOp);
  const bool is_stack = !lora.row_groups.empty();
  require(!lora.a.empty() && lora.a.shape().rank() == (is_stack ? 3 : 2) && lora.a.elements() > 0,
          "{}: lora.a must be {}, got {}", kOp,
          is_stack ? "a stack of matrices [adapters, R, V]" : "a matrix [R, V]",
          lora.a.empty() ? "nothing" : lora.a.text());
  require(!y.empty() && y.shape().rank() == 2 && y.elements() > 0,
          "{}: y must be a matrix [T, D], got {}", kOp, y.empty() ? "nothing" : y.text());
  const std::int64_t T = y.shape()[0], D = y.shape()[1], R = lora.rank();
  require_tensor(kOp, "lora.a", lora.a, lora.a.shape());
  require_tensor(kOp, "lora.bt", lora.bt, is_stack ? Shape{lora.a.shape()[0], R, D} : Shape{R, D});
  if (is_stack) require_tensor(kOp, "row_groups", lora.row_groups, {T, kRowGroupWords}, DType::u32);
  require_tensor(kOp, "ids", ids, {T}, DType::i32);
  require(std::isfinite(factor), "{}: the factor must be finite, got {}", kOp, factor);
}

// `columns` work-items along the first dimension and, along the second, one for each token or
// fewer that take several.
Grid grid_of(std::int64_t columns, std::int64_t tokens, Tile tile) {
  const std::int64_t groups = std::min(divide_up(tokens, tile.tokens), kMaxTokenGroups);
  return {{static_cast<std::size_t>(round_up(columns, tile.columns)),
           static_cast<std::size_t>(groups * tile.tokens), 1},
          {static_cast<std::size_t>(tile.columns), static_cast<std::size_t>(tile.tokens), 1}};
}

// A launch with work-items for each rank and token.
Launch launch_of(Batch& batch, std::string_view function, const Tensor& s, std::string label) {
  const auto elements = static_cast<double>(s.elements());
  return {batch.context().kernel("lora_embedding.cl", function),
          grid_of(s.shape()[1], s.shape()[0], kRankTile),
          {elements, 12 * elements},
          std::move(label)};
}

void record_grouped(Batch& batch, const Tensor& y, const Tensor& s, const Tensor& ids,
                    const LoraWeights& lora, float factor) {
  const std::uint32_t T = u32(y.shape()[0]), D = u32(y.shape()[1]), R = u32(lora.rank());
  batch.launch(launch_of(batch, "lora_embedding_grouped_rows", s, "lora_embedding/forward"), s, ids,
               lora.a, lora.row_groups, T, R, u32(lora.a.shape()[2]), lora.scale * factor);
  const auto elements = static_cast<double>(y.elements());
  Launch expand{batch.context().kernel("lora_embedding.cl", "lora_embedding_grouped_expand"),
                grid_of(D, T, kColumnTile),
                {2.0 * R * elements, 8 * elements},
                "lora_embedding/expand"};
  batch.launch(std::move(expand), y, s, lora.bt, lora.row_groups, T, R, D);
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
               ids, links, u32(ds.shape()[0]), u32(ds.shape()[1]), u32(vocabulary), u32(row_step),
               u32(id_step), factor);
}

}  // namespace

void record_lora_embedding(Batch& batch, const Tensor& y, const Tensor& s, const Tensor& ids,
                           const LoraWeights& lora, float factor) {
  require_inputs(y, ids, lora, factor);
  require_tensor(kOp, "y", y, y.shape());
  require_tensor(kOp, "s", s, {y.shape()[0], lora.rank()});
  if (!lora.row_groups.empty()) return record_grouped(batch, y, s, ids, lora, factor);
  const std::uint32_t T = u32(y.shape()[0]), R = u32(lora.rank()), V = u32(lora.a.shape()[1]);
  batch.launch(launch_of(batch, "lora_embedding_rows", s, "lora_embedding/forward"), s, ids, lora.a,
               T, R, V, lora.scale * factor);
  record_gemm_backward(batch, y, s, lora.bt, Accumulate::yes);
}

void record_lora_embedding_backward(Batch& batch, const LoraGradients& gradients, const Tensor& dy,
                                    const LoraEmbeddingSaved& saved, const LoraWeights& lora,
                                    float factor) {
  const auto& [ids, s] = saved;
  require(lora.row_groups.empty(), "{}: rows of several adapters have no gradients", kOp);
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
