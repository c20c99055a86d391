#include "ops/lora_linear/dora_products.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "ops/dispatch/requirements.hpp"
#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/hopper/tensor_maps.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// Warps of a work-group, tiles of a warp, and what the matrix unit multiplies at once.
constexpr std::int64_t kWarps = 4, kTiles = 4, kTileColumns = 8, kRanks = 16;
constexpr std::int64_t kItems = 32 * kWarps, kColumns = kWarps * kTiles * kTileColumns;
constexpr std::int64_t kVec = 8;  // elements that are loaded at once

// Two layers: ragged columns, steps and ranks, and several blocks of each.
void test_products(SelfTest& test) {
  constexpr std::int64_t kStep = 1024;  // elements, at whose multiples a kernel argument may begin
  struct Size {
    std::int64_t rank, columns, steps;
  };
  constexpr std::array<Size, 2> kSizes{Size{21, 270, 200}, Size{5, 33, 104}};
  DoraLayers all;
  std::int64_t end = 0, columns = 0;
  const auto place = [&](std::int64_t elements) {
    const std::int64_t at = end;
    end = round_up(end + elements, kStep);
    return static_cast<std::size_t>(at);
  };
  for (const auto& [rank, n, k] : kSizes) {
    all.layers.push_back({.w = test.input({n, k}, 1, DType::bf16),
                          .rank = rank,
                          .scale = 0.5F,
                          .a = place(rank * k),
                          .bt = place(rank * n),
                          .magnitude = place(n),
                          .columns = static_cast<std::size_t>(columns)});
    columns = round_up(columns + n, kStep);
  }
  all.parameters = test.input({end}, 0.3F);
  const std::vector<float> squared(static_cast<std::size_t>(columns), 20.0F);
  all.squared = test.input({columns}, squared);
  all.column_scale = test.changed(test.input({columns}));
  record_column_scales(test.batch(), all);
}

std::uint32_t rank_blocks_of(const DoraLayers& all, const std::vector<std::uint32_t>& numbers) {
  std::int64_t rank = 0;
  for (const std::uint32_t number : numbers) rank = std::max(rank, all.layers[number].rank);
  return u32(divide_up(rank, kRanks));
}

// The layer and the first column of each block of columns, those with the longest sums first, so
// that none of them ends long after the others.
std::vector<std::uint32_t> blocks_of(const DoraLayers& all, std::vector<std::uint32_t> numbers) {
  std::ranges::stable_sort(numbers, std::ranges::greater(),
                           [&](std::uint32_t number) { return all.layers[number].w.shape()[1]; });
  std::vector<std::uint32_t> blocks;
  for (const std::uint32_t number : numbers) {
    const std::int64_t columns = all.layers[number].w.shape()[0];
    for (std::int64_t n = 0; n < columns; n += kColumns) {
      blocks.insert(blocks.end(), {number, u32(n)});
    }
  }
  return blocks;
}

// The weights by the numbers of their layers; those of other layers are not read.
TensorTable table_of(const DoraLayers& all, const std::vector<std::uint32_t>& numbers) {
  TensorTable table;
  table.tensors.resize(all.layers.size());
  for (const std::uint32_t number : numbers) {
    table.tensors[number] = all.layers[number].w.whole();
  }
  return table;
}

Cost cost_of(const DoraLayers& all, const std::vector<std::uint32_t>& numbers) {
  Cost cost;
  for (const std::uint32_t number : numbers) {
    const DoraLayer& layer = all.layers[number];
    const auto rank = static_cast<double>(layer.rank);
    const auto rows = static_cast<double>(layer.w.shape()[0] + layer.w.shape()[1]);
    cost.flops += 2 * rank * static_cast<double>(layer.w.elements());
    cost.bytes += static_cast<double>(layer.w.bytes()) + 4 * rank * rows;
  }
  return cost;
}

}  // namespace

bool dora_products_fit(const Context& context, const DoraLayer& layer) {
  const Weight& w = layer.w;
  return needs_any_mma(context) == nullptr && needs_ptx(context) == nullptr && !w.is_split() &&
         w.type() == DType::bf16 && w.layout() == Layout::plain && w.shape()[1] % kVec == 0 &&
         layer.a % kVec == 0 && w.whole().offset_bytes() % (kVec * sizeof(std::uint16_t)) == 0;
}

bool dora_products_passed(Context& context) {
  return passed_self_test(context, {kDoraProducts, "dora_products"}, test_products);
}

void record_dora_products(Batch& batch, const Tensor& products, const DoraLayers& all,
                          const Tensor& layer_words, const std::vector<std::uint32_t>& numbers) {
  Context& context = batch.context();
  const TensorTable table = table_of(all, numbers);
  const std::vector<std::uint32_t> blocks = blocks_of(all, numbers);
  const std::uint32_t rank_blocks = rank_blocks_of(all, numbers);
  const Tensor groups =
      context.upload<std::uint32_t>({std::ssize(blocks)}, DType::u32, blocks, MemoryTag::adapters);
  const Tensor addresses = prepare_tensor_table(batch, table, "dora/addresses");
  Defines defines;
  defines.set("WARPS", kWarps).set("TILES", kTiles);
  Launch launch{context.kernel(kDoraProducts, "dora_products", defines),
                groups_of(static_cast<std::size_t>(kItems), blocks.size() / 2 * rank_blocks),
                cost_of(all, numbers), "dora/products", table.uses()};
  batch.launch(std::move(launch), products, all.parameters, addresses, layer_words, groups,
               rank_blocks);
}

}  // namespace clora
