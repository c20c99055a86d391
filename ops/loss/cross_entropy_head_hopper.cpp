#include "ops/loss/cross_entropy_head_hopper.hpp"

#include <fmt/format.h>

#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/gemm/gemm_hopper.hpp"
#include "ops/gemm/gemm_wgmma_self_test.hpp"
#include "ops/hopper/tensor_maps.hpp"
#include "ops/launch_grids.hpp"
#include "ops/loss/cross_entropy_head_ends.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::int64_t kTileRows = 128;
constexpr std::int64_t kTileEntries = 256;
constexpr std::int64_t kTileColumns = 256;  // of dx, approximately
constexpr std::int64_t kStages = 4;
constexpr std::size_t kItems = 384;
constexpr std::uint32_t kGroupM = 16;  // as in gemm_hopper.cpp
constexpr std::uint32_t kBoxRows = 64;
// Maximum size of the exponentials of a chunk: with fewer chunks the partial sums of the products
// are read and written less often, but larger chunks gain little.
constexpr std::int64_t kChunkBytes = 300 << 20;

// Records one call.
class Recording {
 public:
  Recording(Batch& batch, const HeadLoss& head)
      : batch_(batch), head_(head), x_(record_bf16_rows(batch, head.in.x)) {
    const std::int64_t most = in_.entries_per_chunk > 0
                                  ? divide_up(in_.entries_per_chunk, kTileEntries)
                                  : tiles_that_fit();
    const std::int64_t units = std::max(1U, batch.context().device().compute_units);
    chunk_tiles_ = head_chunk_tiles(row_tiles_, tiles_, std::min(most, tiles_), units);
    const auto temporary = [&](const Shape& shape, DType type, std::string_view name) {
      return batch_.temporary(shape, type, name);
    };
    sums_ = head_sums_of(batch, head, tiles_);
    if (dx_.empty()) return;
    cut_products(units);
    const std::int64_t columns = splits_ > 1
                                     ? split_tiles_ * kTileEntries
                                     : std::min(chunk_tiles_ * kTileEntries, padded(entries_));
    exponentials_ =
        temporary({splits_ * split_rows_ * columns}, DType::bf16, "head_loss exponentials");
    products_ = splits_ > 1
                    ? temporary({splits_ * split_rows_, width_}, DType::f32, "head_loss products")
                    : dx_;
    const std::int64_t step = batch_.context().device().base_alignment_bytes;
    const std::int64_t words = round_up(1 + row_tiles_ + rows_, step);
    raised_ = temporary({divide_up(tiles_, chunk_tiles_), words}, DType::u32, "head_loss raised");
  }

  // Whether the programs of the products for dx have passed their self-tests.
  bool products_passed() {
    for (std::int64_t tile = 0; !dx_.empty() && tile < tiles_; tile += chunk_tiles_) {
      const GemmProduct product = product_of(tile, exponentials_of(entries_from(tile)), Tensor());
      if (!gemm_wgmma_passed(batch_.context(), {&product, 1})) return false;
    }
    return true;
  }

  void record() {
    if (!dx_.empty()) record_zero_words(batch_, raised_, "head_loss/zeros");
    record_head_references(batch_, head_, x_, sums_);
    for (std::int64_t tile = 0; tile < tiles_; tile += chunk_tiles_) {
      record_chunk(tile, record_bf16_rows(batch_, in_.head.whole().rows(tile * kTileEntries,
                                                                        entries_from(tile))));
    }
    record_head_end(batch_, head_, sums_, {products_, splits_, split_rows_});
  }

 private:
  static std::int64_t padded(std::int64_t entries) { return round_up(entries, 8); }

  std::int64_t tiles_that_fit() const {
    const bool rounds = in_.head.type() != DType::bf16;
    const std::int64_t entry_bytes = 2 * (dx_.empty() ? 0 : rows_) + 2 * (rounds ? width_ : 0);
    if (entry_bytes == 0) return tiles_;
    return std::max(kChunkBytes / (entry_bytes * kTileEntries), std::int64_t{1});
  }

  // With few rows, dx has too few tiles to fill the GPU: the chunk is split along its entries
  // (split-K), and the products of the slices are summed at the end.
  void cut_products(std::int64_t units) {
    constexpr std::int64_t kMaxSplits = 16;
    const std::int64_t product_tiles = row_tiles_ * divide_up(width_, kTileColumns);
    const std::int64_t splits =
        std::clamp(units / product_tiles, std::int64_t{1}, std::min(kMaxSplits, chunk_tiles_));
    split_tiles_ = divide_up(chunk_tiles_, splits);
    splits_ = divide_up(chunk_tiles_, split_tiles_);
    split_rows_ = splits_ > 1 ? row_tiles_ * kTileRows : rows_;
  }

  // Entries of the chunk that begins with this tile.
  std::int64_t entries_from(std::int64_t tile) const {
    return std::min(chunk_tiles_ * kTileEntries, entries_ - tile * kTileEntries);
  }

  // The exponentials of a chunk of `entries` entries.
  Tensor exponentials_of(std::int64_t entries) const {
    const std::int64_t splits = divide_up(entries, split_tiles_ * kTileEntries);
    const std::int64_t columns = splits_ > 1 ? split_tiles_ * kTileEntries : padded(entries);
    return exponentials_.slice(0, {splits * split_rows_, columns}, DType::bf16);
  }

  // The product of all slices of the chunk that begins with this tile.
  GemmProduct product_of(std::int64_t tile, const Tensor& e, const Tensor& w) const {
    GemmProduct product;
    product.y = products_.rows(0, e.shape()[0]);
    product.x = e;
    product.w = w;
    if (tile > 0) product.epilogue.residual = product.y;
    if (splits_ > 1) product.split_rows = split_rows_;
    product.backward = true;
    return product;
  }

  // Records the chunk's exponentials, and dx += e w.
  void record_chunk(std::int64_t tile, const Bf16Rows& w) {
    if (dx_.empty()) return record_exponentials(tile, w, {}, {}, false);
    const Tensor raised = raised_.rows(tile / chunk_tiles_, 1);
    const Tensor e = exponentials_of(w.rows);
    record_exponentials(tile, w, e, raised, false);
    record_exponentials(tile, w, e, raised, true);
    const GemmProduct product = product_of(tile, e, w.data);
    record_gemm_wgmma(batch_, {&product, 1});
  }

  void record_exponentials(std::int64_t tile, const Bf16Rows& w, const Tensor& e,
                           const Tensor& raised, bool again) {
    const bool alone = e.empty();
    Bf16Rows stored = x_;
    if (!alone) stored = {e, u32(e.shape()[0]), u32(e.shape()[1]), u32(e.shape()[1])};
    const TensorTable table{
        .matrices = {{x_, u32(kTileRows)}, {w, u32(kTileEntries)}, {stored, kBoxRows}},
        .tensors = {sums_.parts, sums_.references, raised, products_}};
    Defines defines;
    defines.set("STAGES", kStages);
    if (alone) defines.set("LOSS_ALONE");
    const double flops = 2.0 * static_cast<double>(rows_ * width_) * w.rows;
    const double bytes = 2.0 * static_cast<double>(in_.x.elements() + w.data.elements() +
                                                   (alone ? 0 : e.elements()));
    const std::size_t units = std::max(1U, batch_.context().device().compute_units);
    Launch launch{batch_.context().kernel(kHeadLossWgmma, "head_exponentials", defines),
                  groups_of(kItems, units), again ? Cost{} : Cost{flops, bytes},
                  again ? "head_loss/exponentials again" : "head_loss/exponentials", table.uses()};
    batch_.launch(std::move(launch), prepare_tensor_table(batch_, table, "head_loss/table"),
                  u32(rows_), w.rows, u32(width_), u32(tile), u32(split_tiles_), u32(split_rows_),
                  std::uint32_t{again}, tile > 0 ? u32(splits_) : 0, kGroupM);
  }

  Batch& batch_;
  const HeadLoss& head_;
  const Tensor& dx_ = head_.dx;
  const HeadLossInputs& in_ = head_.in;
  const Bf16Rows x_;
  const std::int64_t rows_ = in_.x.shape()[0];
  const std::int64_t width_ = in_.x.shape()[1];
  const std::int64_t entries_ = in_.head.shape()[0];
  const std::int64_t tiles_ = divide_up(entries_, kTileEntries);
  const std::int64_t row_tiles_ = divide_up(rows_, kTileRows);
  std::int64_t chunk_tiles_ = 0;
  std::int64_t split_tiles_ = tiles_;  // of a slice of a chunk's entries
  std::int64_t split_rows_ = rows_;    // of a slice's exponentials and products
  std::int64_t splits_ = 1;
  HeadSums sums_;
  Tensor exponentials_;
  Tensor products_;  // of the slices; dx itself if there is one slice
  Tensor raised_;
};

// Builds the products in a batch that is never submitted.
bool products_passed(Context& context, const HeadLoss& head) {
  Batch batch(context);
  const HeadLoss other{batch.temporary(head.loss.shape(), DType::f32, "head_loss test"),
                       batch.temporary(head.dx.shape(), DType::f32, "head_loss test dx"), head.in};
  return Recording(batch, other).products_passed();
}

}  // namespace

const char* head_loss_wgmma_refusal(const Context& context, const HeadLoss& head) {
  const auto& [loss, dx, in] = head;
  const GemmSize size{u32(in.x.shape()[0]), u32(in.head.shape()[0]), u32(in.head.shape()[1])};
  if (!rounds_to_bf16(context, size, false)) return "it is for many rows";
  if (in.head.is_split()) return "it reads weights in one part";
  if (in.soft_cap != 0) return "it has no soft cap of logits";
  return in.head.layout() == Layout::plain ? nullptr : "it reads plain weights";
}

bool head_loss_wgmma_passed(Context& context, const HeadLoss& head) {
  const bool gradient = head.wants_gradient();
  const LossTerms& terms = head.in.terms;
  const std::string name =
      fmt::format("head_loss_wgmma {}{}", gradient ? "gradient" : "loss", tested_terms(terms));
  return passed_self_test(context, {kHeadLossWgmma, name, kBf16Tolerance},
                          [&](SelfTest& test) { test_head_loss(test, gradient, 612, terms); }) &&
         (!gradient || tests_fast_kernel(context) || products_passed(context, head));
}

void record_head_loss_wgmma(Batch& batch, const HeadLoss& head) { Recording(batch, head).record(); }

}  // namespace clora
