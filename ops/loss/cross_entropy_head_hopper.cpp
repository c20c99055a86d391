#include "ops/loss/cross_entropy_head_hopper.hpp"

#include "clora/ops/quant/quant.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/gemm/gemm_hopper.hpp"
#include "ops/gemm/gemm_wgmma_self_test.hpp"
#include "ops/hopper/tensor_maps.hpp"
#include "ops/launch_grids.hpp"
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
constexpr std::size_t kRowsAGroup = 8;  // ROWS of cl/loss/cross_entropy_head.cl

// Multiples of 1/32 below 2, which bf16 represents exactly: nothing is rounded. The losses are
// large.
std::vector<float> exact_values(std::int64_t count, std::uint32_t seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = (static_cast<float>(seed >> 26U) - 31.5F) / 16;
  }
  return values;
}

// Several tiles in each dimension, the last ones partial, and losses beyond the range of one
// reference.
void test_head_loss(SelfTest& test, bool gradient) {
  constexpr std::int64_t kRows = 150, kEntries = 612, kWidth = 72;
  std::vector<std::int32_t> targets(kRows);
  for (std::size_t t = 0; t < targets.size(); ++t) {
    targets[t] = t % 7 == 3 ? -1 : static_cast<std::int32_t>(t * 31 % kEntries);
  }
  const HeadLossInputs inputs{
      .x = test.input({kRows, kWidth}, exact_values(kRows * kWidth, 1)),
      .head = test.input({kEntries, kWidth}, exact_values(kEntries * kWidth, 2)),
      .targets = test.input({kRows}, targets),
      .weight = test.input({1}, std::vector{0.5F}),
      .entries_per_chunk = kTileEntries};
  record_head_loss(test.batch(), test.output({kRows}),
                   gradient ? test.output({kRows, kWidth}) : Tensor(), inputs);
}

// Records one call.
class Recording {
 public:
  Recording(Batch& batch, const Tensor& loss, const Tensor& dx, const HeadLossInputs& inputs)
      : batch_(batch), loss_(loss), dx_(dx), in_(inputs), x_(record_bf16_rows(batch, inputs.x)) {
    const std::int64_t most = in_.entries_per_chunk > 0
                                  ? divide_up(in_.entries_per_chunk, kTileEntries)
                                  : tiles_that_fit();
    const std::int64_t units = std::max(1U, batch.context().device().compute_units);
    chunk_tiles_ = head_chunk_tiles(row_tiles_, tiles_, std::min(most, tiles_), units);
    const auto temporary = [&](const Shape& shape, DType type, std::string_view name) {
      return batch_.temporary(shape, type, name);
    };
    parts_ = temporary({tiles_, rows_, 2}, DType::f32, "head_loss parts");
    target_logits_ = temporary({rows_}, DType::f32, "head_loss target logits");
    references_ = temporary({rows_}, DType::f32, "head_loss references");
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
    record_references();
    for (std::int64_t tile = 0; tile < tiles_; tile += chunk_tiles_) {
      record_chunk(
          tile, record_bf16_rows(batch_, in_.head.rows(tile * kTileEntries, entries_from(tile))));
    }
    record_end();
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

  Launch launch_of(std::string_view file, std::string_view function, const Defines& defines,
                   Grid grid, Cost cost, std::string_view label) {
    return {batch_.context().kernel(file, function, defines), grid, cost, std::string(label)};
  }

  void record_references() {
    constexpr std::size_t kGroup = 64;
    Defines defines;
    set_weight_type(defines.set("GROUP", kGroup), in_.head);
    const auto elements = static_cast<double>(in_.x.elements());
    batch_.launch(launch_of("cross_entropy_head.cl", "head_references", defines,
                            groups_of(kGroup, static_cast<std::size_t>(rows_)),
                            {2 * elements, 4 * elements}, "head_loss/references"),
                  target_logits_, references_, x_.data, in_.head, in_.targets, u32(entries_),
                  u32(width_), x_.stride);
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
    if (tile > 0) product.addend = product.y;
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
        .tensors = {parts_, references_, raised, products_}};
    Defines defines;
    defines.set("STAGES", kStages);
    if (alone) defines.set("LOSS_ALONE");
    const double flops = 2.0 * static_cast<double>(rows_ * width_) * w.rows;
    const double bytes = 2.0 * static_cast<double>(in_.x.elements() + w.data.elements() +
                                                   (alone ? 0 : e.elements()));
    const std::size_t units = std::max(1U, batch_.context().device().compute_units);
    Launch launch = launch_of(kHeadLossWgmma, "head_exponentials", defines,
                              groups_of(kItems, units), again ? Cost{} : Cost{flops, bytes},
                              again ? "head_loss/exponentials again" : "head_loss/exponentials");
    launch.uses = table.uses();
    batch_.launch(std::move(launch), prepare_tensor_table(batch_, table, "head_loss/table"),
                  u32(rows_), w.rows, u32(width_), u32(tile), u32(split_tiles_), u32(split_rows_),
                  std::uint32_t{again}, tile > 0 ? u32(splits_) : 0, kGroupM);
  }

  void record_end() {
    const bool alone = dx_.empty();
    const std::size_t group = reduction_group(batch_.context().device());
    Defines defines;
    set_weight_type(defines.set("GROUP", group), in_.head);
    if (!alone) defines.set("GRADIENT");
    const auto elements = alone ? 0 : static_cast<double>(dx_.elements());
    const double bytes = 10 * elements + static_cast<double>(parts_.bytes());
    batch_.launch(
        launch_of("cross_entropy_head.cl", "head_loss", defines,
                  groups_of(group, divide_up(static_cast<std::size_t>(rows_), kRowsAGroup)),
                  {3 * elements, bytes}, "head_loss/end"),
        loss_, alone ? loss_ : dx_, alone ? loss_ : products_, parts_, target_logits_, in_.head,
        in_.targets, alone ? loss_ : in_.weight, u32(rows_), u32(entries_), u32(width_),
        u32(tiles_), u32(splits_), u32(split_rows_));
  }

  Batch& batch_;
  const Tensor& loss_;
  const Tensor& dx_;
  const HeadLossInputs& in_;
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
  Tensor parts_;
  Tensor target_logits_;
  Tensor references_;
  Tensor exponentials_;
  Tensor products_;  // of the slices; dx itself if there is one slice
  Tensor raised_;
};

// Builds the products in a batch that is never submitted.
bool products_passed(Context& context, const HeadLossInputs& inputs) {
  Batch batch(context);
  const Tensor loss = batch.temporary({inputs.x.shape()[0]}, DType::f32, "head_loss test");
  const Tensor dx = batch.temporary(inputs.x.shape(), DType::f32, "head_loss test dx");
  return Recording(batch, loss, dx, inputs).products_passed();
}

}  // namespace

std::int64_t head_chunk_tiles(std::int64_t row_tiles, std::int64_t tiles, std::int64_t most,
                              std::int64_t units) {
  constexpr std::int64_t kRoundsOfAChunk = 3;  // start and accumulation of a chunk, in rounds
  std::int64_t best = most;
  std::int64_t best_rounds = 0;
  for (std::int64_t each = most; each > most / 2; --each) {
    const std::int64_t last = tiles % each;
    const std::int64_t rounds =
        tiles / each * (divide_up(row_tiles * each, units) + kRoundsOfAChunk) +
        (last > 0 ? divide_up(row_tiles * last, units) + kRoundsOfAChunk : 0);
    if (best_rounds > 0 && rounds >= best_rounds) continue;
    best = each;
    best_rounds = rounds;
  }
  return best;
}

const char* head_loss_wgmma_refusal(const Context& context, const HeadLoss& head) {
  const auto& [loss, dx, in] = head;
  const GemmSize size{u32(in.x.shape()[0]), u32(in.head.shape()[0]), u32(in.head.shape()[1])};
  if (!rounds_to_bf16(context.variant(), size, false)) return "it is for many rows";
  return in.head.layout() == Layout::plain ? nullptr : "it reads plain weights";
}

bool head_loss_wgmma_passed(Context& context, const HeadLoss& head) {
  const bool gradient = head.wants_gradient();
  const std::string_view name = gradient ? "head_loss_wgmma gradient" : "head_loss_wgmma loss";
  return passed_self_test(context, {kHeadLossWgmma, name, kBf16Tolerance},
                          [&](SelfTest& test) { test_head_loss(test, gradient); }) &&
         (!gradient || tests_fast_kernel(context) || products_passed(context, head.in));
}

void record_head_loss_wgmma(Batch& batch, const HeadLoss& head) {
  Recording(batch, head.loss, head.dx, head.in).record();
}

}  // namespace clora
