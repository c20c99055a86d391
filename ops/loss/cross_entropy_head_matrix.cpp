#include "ops/loss/cross_entropy_head_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ops/dispatch/soft_cap_define.hpp"
#include "ops/gemm/gemm_dispatch.hpp"
#include "ops/hopper/tensor_maps.hpp"
#include "ops/launch_grids.hpp"
#include "ops/loss/cross_entropy_head_ends.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

#include "cl/loss/cross_entropy_head_problem.clh"

constexpr std::uint32_t kGroupM = 8;  // tile rows of a rasterisation group
// Work-groups that a compute unit runs at a time: the exponentials of one run while the other
// multiplies.
constexpr std::int64_t kGroupsOfUnit = 2;
// Maximum size of the exponentials of a chunk: with fewer chunks the partial sums of the products
// are read and written less often, but larger chunks gain little.
constexpr std::int64_t kChunkBytes = 300 << 20;

// Records one call.
class Recording {
 public:
  Recording(Batch& batch, const HeadLoss& head, MatrixUnitChoice unit, const HeadMatrixTiles& tiles)
      : batch_(batch),
        head_(head),
        unit_(unit),
        tile_(tiles),
        x_(record_bf16_rows(batch, head.in.x)) {
    const std::int64_t most = in_.entries_per_chunk > 0
                                  ? divide_up(in_.entries_per_chunk, std::int64_t{tile_.columns})
                                  : tiles_that_fit();
    chunk_tiles_ = head_chunk_tiles(row_tiles_, tiles_, std::min(most, tiles_), groups_);
    sums_ = head_sums_of(batch, head, tiles_);
    if (!head_.wants_gradient()) return;
    const std::int64_t chunk = std::min(chunk_tiles_ * tile_.columns, entries_);
    exponentials_ = batch.temporary({rows_, chunk}, DType::bf16, "head_loss exponentials");
    const std::int64_t step = batch_.context().device().base_alignment_bytes;
    const std::int64_t words = round_up(1 + row_tiles_ + rows_, step);
    raised_ =
        batch.temporary({divide_up(tiles_, chunk_tiles_), words}, DType::u32, "head_loss raised");
  }

  void record() {
    if (head_.wants_gradient()) record_zero_words(batch_, raised_, "head_loss/zeros");
    record_head_references(batch_, head_, x_, sums_);
    for (std::int64_t tile = 0; tile < tiles_; tile += chunk_tiles_) record_chunk(tile);
    record_head_end(batch_, head_, sums_, {.slices = head_.dx});
  }

 private:
  std::int64_t tiles_that_fit() const {
    const bool rounds = in_.head.type() != DType::bf16;
    const std::int64_t entry_bytes =
        2 * (head_.wants_gradient() ? rows_ : 0) + 2 * (rounds ? width_ : 0);
    if (entry_bytes == 0) return tiles_;
    return std::max(kChunkBytes / (entry_bytes * tile_.columns), std::int64_t{1});
  }

  // Records the exponentials of the chunk that begins with this tile, and dx += e w.
  void record_chunk(std::int64_t tile) {
    const std::int64_t first = tile * tile_.columns;
    const std::int64_t entries = std::min(chunk_tiles_ * tile_.columns, entries_ - first);
    const Tensor head = in_.head.whole().rows(first, entries);
    const Bf16Rows w = record_bf16_rows(batch_, head);
    if (!head_.wants_gradient()) return record_exponentials(tile, w, {}, {}, false);
    const Tensor raised = raised_.rows(tile / chunk_tiles_, 1);
    const Tensor e = exponentials_.slice(0, {rows_, entries}, DType::bf16);
    record_exponentials(tile, w, e, raised, false);
    record_exponentials(tile, w, e, raised, true);
    GemmProduct product;
    product.y = head_.dx;
    product.x = e;
    product.w = w.stride == w.columns ? w.data : head;
    if (tile > 0) product.epilogue.residual = head_.dx;
    product.backward = true;
    choose_gemm(batch_.context(), product).record(batch_, product);
  }

  Defines defines() const {
    Defines defines;
    define_matrix_unit(defines, unit_);
    define_soft_cap(defines, in_.soft_cap);
    defines.set("TILE_ROWS", tile_.rows).set("TILE_COLUMNS", tile_.columns);
    defines.set("SUB_ROWS", tile_.sub_rows).set("SUB_COLUMNS", tile_.sub_columns);
    defines.set("STEPS", tile_.steps).set("STAGES", tile_.stages);
    return head_.wants_gradient() ? defines : defines.set("LOSS_ALONE");
  }

  Cost cost_of(std::int64_t entries) const {
    const auto all = static_cast<double>(entries);
    const double stored = head_.wants_gradient() ? static_cast<double>(rows_) : 0;
    return {
        2 * static_cast<double>(rows_ * width_) * all,
        2 * (static_cast<double>(in_.x.elements()) + (static_cast<double>(width_) + stored) * all)};
  }

  void record_exponentials(std::int64_t tile, const Bf16Rows& w, const Tensor& e,
                           const Tensor& raised, bool again) {
    const HeadProblem sizes{.T = u32(rows_),
                            .V = w.rows,
                            .D = u32(width_),
                            .x_stride = x_.stride,
                            .w_stride = w.stride,
                            .e_stride = w.rows,
                            .first_tile = u32(tile),
                            .again = again,
                            .has_dx = tile > 0,
                            .group_m = kGroupM};
    const std::int64_t tiles = row_tiles_ * divide_up(w.rows, tile_.columns);
    const std::size_t items = std::size_t{tile_.subgroups()} * matrix_unit_lanes(unit_);
    const std::int64_t groups = again ? std::min(tiles, groups_) : tiles;
    Launch launch{batch_.context().kernel(kHeadLossMatrix, "head_exponentials_matrix", defines()),
                  groups_of(items, static_cast<std::size_t>(groups)),
                  again ? Cost{} : cost_of(w.rows),
                  again ? "head_loss/exponentials again" : "head_loss/exponentials"};
    const bool alone = !head_.wants_gradient();
    batch_.launch(std::move(launch), sums_.parts, alone ? x_.data : e, sums_.references,
                  alone ? sums_.references : raised, alone ? sums_.references : head_.dx, x_.data,
                  w.data, by_value(sizes));
  }

  Batch& batch_;
  const HeadLoss& head_;
  const HeadLossInputs& in_ = head_.in;
  const MatrixUnitChoice unit_;
  const HeadMatrixTiles tile_;
  const Bf16Rows x_;
  const std::int64_t rows_ = in_.x.shape()[0];
  const std::int64_t width_ = in_.x.shape()[1];
  const std::int64_t entries_ = in_.head.shape()[0];
  const std::int64_t tiles_ = divide_up(entries_, std::int64_t{tile_.columns});
  const std::int64_t row_tiles_ = divide_up(rows_, std::int64_t{tile_.rows});
  const std::int64_t groups_ =
      kGroupsOfUnit * std::max(1U, batch_.context().device().compute_units);
  std::int64_t chunk_tiles_ = 0;
  HeadSums sums_;
  Tensor exponentials_;
  Tensor raised_;
};

}  // namespace

HeadMatrixTiles head_matrix_tiles(const Device& device) {
  HeadMatrixTiles tiles;
  // These GPUs have 227 KiB.
  if (device.matrix_unit == MatrixUnit::wgmma) tiles.steps = 64;
  // A lane of 16 has registers for the sums of 16 columns and their exponentials (clc stats on
  // pvc).
  if (device.matrix_unit == MatrixUnit::xmx) {
    return {.rows = 32, .columns = 64, .sub_rows = 16, .sub_columns = 16, .steps = 32, .stages = 4};
  }
  return tiles;
}

const char* head_loss_matrix_refusal(const Context& context, const HeadLoss& head) {
  const auto& [loss, dx, in] = head;
  const GemmSize size{u32(in.x.shape()[0]), u32(in.head.shape()[0]), u32(in.head.shape()[1])};
  if (!rounds_to_bf16(context, size, false)) return "it is for many rows";
  if (head.wants_gradient() && in.head.shape()[0] % 8 != 0) {
    return "its vocabulary is a multiple of 8";
  }
  if (in.head.is_split()) return "it reads weights in one part";
  if (in.terms.label_smoothing != 0 && in.soft_cap != 0) {
    return "it has no label smoothing of capped logits";
  }
  return in.head.layout() == Layout::plain ? nullptr : "it reads plain weights";
}

bool head_loss_matrix_passed(Context& context, const HeadLoss& head) {
  const bool gradient = head.wants_gradient();
  const bool capped = head.in.soft_cap != 0;
  const LossTerms& terms = head.in.terms;
  const std::string name = fmt::format("head_loss_matrix {}{}{}", gradient ? "gradient" : "loss",
                                       capped ? " capped" : "", tested_terms(terms));
  return passed_self_test(context, {kHeadLossMatrix, name, kBf16Tolerance}, [&](SelfTest& test) {
    test_head_loss(test, gradient, 616, terms, capped);
  });
}

void record_head_loss_matrix_with(Batch& batch, const HeadLoss& head, MatrixUnitChoice unit,
                                  const HeadMatrixTiles& tiles) {
  Recording(batch, head, unit, tiles).record();
}

void record_head_loss_matrix(Batch& batch, const HeadLoss& head) {
  const Context& context = batch.context();
  record_head_loss_matrix_with(batch, head, matrix_unit_of(context),
                               head_matrix_tiles(context.device()));
}

}  // namespace clora
