#include "clora/ops/rowwise/norm_gradient.hpp"

#include <algorithm>
#include <cmath>

#include "ops/activations.hpp"
#include "ops/dispatch/variant_launch.hpp"
#include "ops/launch_grids.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::string_view kOp = "norm_gradient";
constexpr std::uint32_t kGroup = 64;   // work-items of a group
constexpr std::uint32_t kColumns = 8;  // of a group that sums chunks

// Rows and columns of the tensors, and the chunks of rows that are summed apart.
struct Chunks {
  std::int64_t rows, width;
  bool by_rows;      // the kernel for CPUs
  std::int64_t vec;  // columns at once
  std::int64_t each, count;

  Chunks(const Context& context, const Shape& x);
  Grid grid() const;
};

// Chunks are so long that their sums cost little, and so short that a GPU has work-items enough.
Chunks::Chunks(const Context& context, const Shape& x)
    : rows(x.rows()), width(x.last()), by_rows(context.capabilities().cpu) {
  constexpr std::int64_t kMinRows = 16, kMaxRows = 256, kItems = 1 << 15;
  const std::int64_t widest = by_rows ? 8 : 4;
  vec = width % widest == 0 ? widest : 1;
  const auto groups = static_cast<std::int64_t>(cpu_groups(context.device(), rows));
  each = by_rows ? divide_up(rows, groups)
                 : std::clamp(rows * (width / vec) / kItems, kMinRows, kMaxRows);
  count = divide_up(rows, each);
}

Grid Chunks::grid() const {
  const std::int64_t items = by_rows ? 1 : round_up(width / vec, std::int64_t{kGroup});
  return {{static_cast<std::size_t>(items), static_cast<std::size_t>(count), 1},
          {by_rows ? std::size_t{1} : std::size_t{kGroup}, 1, 1}};
}

Defines defines_of(const Chunks& chunks, const Tensor& dy, const Tensor& x, bool has_bias) {
  Defines defines;
  defines.set("VEC_SIZE", u32(chunks.vec)).set("X_TYPE", name_of(x.type()));
  defines.set("DY_TYPE", name_of(dy.type()));
  defines.set("GROUP", kGroup).set("COLUMNS", kColumns);
  if (chunks.by_rows) defines.set("BY_ROWS");
  if (has_bias) defines.set("HAS_BIAS");
  return defines;
}

void require_gradient(std::string_view name, const Tensor& d, const Tensor& dy, const Tensor& x) {
  require_tensor(kOp, name, d, {x.shape().last()});
  require(!overlap(d, dy) && !overlap(d, x), "{}: {} must not overlap dy or x", kOp, name);
}

void require_all(const NormGradients& d, const Tensor& dy, const Tensor& x) {
  require(!x.empty() && x.elements() > 0, "{}: x must have at least one row", kOp);
  require_any_activation(kOp, "x", x, x.shape());
  require_any_activation(kOp, "dy", dy, x.shape());
  require(std::isfinite(d.factor), "{}: the factor must be finite, got {}", kOp, d.factor);
  if (d.dw.empty() || !d.dbias.empty()) require_gradient("dbias", d.dbias, dy, x);
  if (d.dw.empty()) return;
  require_gradient("dw", d.dw, dy, x);
  require(d.dbias.empty() || !overlap(d.dw, d.dbias), "{}: dw must not overlap dbias", kOp);
}

Tensor record_statistics(Batch& batch, const Chunks& chunks, const Defines& defines,
                         const Tensor& x, float epsilon) {
  const Tensor statistics = batch.temporary({chunks.rows, 2}, DType::f32, "norm statistics");
  const auto n = static_cast<double>(x.elements());
  Launch launch{batch.context().kernel("norm_gradient.cl", "norm_gradient_statistics", defines),
                groups_of(kGroup, static_cast<std::size_t>(chunks.rows)),
                {2 * n, element_bytes(x.type()) * n + 8 * static_cast<double>(chunks.rows)},
                "norm_gradient/statistics"};
  batch.launch(std::move(launch), statistics, x, u32(chunks.width), epsilon);
  return statistics;
}

// Adds the sums of all chunks; those of d begin at row `first` of parts.
void record_add(Batch& batch, const Tensor& d, const Tensor& parts, std::int64_t first,
                const Chunks& chunks, float factor, const Defines& defines) {
  const auto columns = static_cast<std::int64_t>(kColumns);
  const auto work = static_cast<double>(chunks.count * chunks.width);
  Launch launch{batch.context().kernel("norm_gradient.cl", "norm_gradient_add", defines),
                groups_of(kGroup, static_cast<std::size_t>(divide_up(chunks.width, columns))),
                {work, 4 * work},
                "norm_gradient/add"};
  batch.launch(std::move(launch), d, parts, factor, u32(chunks.width), u32(first),
               u32(chunks.count));
}

}  // namespace

Cost norm_gradient_cost(const Shape& x, bool has_bias, DType x_type, DType dy_type) {
  const auto n = static_cast<double>(x.elements());
  return {(has_bias ? 7 : 6) * n, (element_bytes(x_type) + element_bytes(dy_type)) * n};
}

void record_norm_gradient(Batch& batch, const NormGradients& d, const Tensor& dy, const Tensor& x,
                          float epsilon) {
  require_all(d, dy, x);
  const bool has_bias = !d.dbias.empty();
  const Chunks chunks(batch.context(), x.shape());
  const Defines defines = defines_of(chunks, dy, x, has_bias);
  const Shape sums{(has_bias ? 2 : 1) * chunks.count, chunks.width};
  const Tensor parts = batch.temporary(sums, DType::f32, "norm gradient parts");
  Launch launch{batch.context().kernel("norm_gradient.cl", "norm_gradient_parts", defines),
                chunks.grid(), norm_gradient_cost(x.shape(), has_bias, x.type(), dy.type()),
                "norm_gradient/parts"};
  std::vector<Argument> arguments{parts, dy, x};
  if (!chunks.by_rows) {
    arguments.emplace_back(record_statistics(batch, chunks, defines, x, epsilon));
  }
  arguments.insert(arguments.end(), {u32(chunks.rows), u32(chunks.width), u32(chunks.each)});
  if (chunks.by_rows) arguments.emplace_back(epsilon);
  batch.record(std::move(launch), std::move(arguments));
  if (!d.dw.empty()) record_add(batch, d.dw, parts, 0, chunks, d.factor, defines);
  if (has_bias) record_add(batch, d.dbias, parts, chunks.count, chunks, d.factor, defines);
}

}  // namespace clora
