// The norms of weights with low-rank terms, and the factors that follow from them.
#include <algorithm>
#include <bit>
#include <limits>

#include "clora/ops/lora_linear/dora.hpp"
#include "clora/ops/quant/quant.hpp"
#include "ops/launch_grids.hpp"
#include "ops/lora_linear/dora_options.hpp"
#include "ops/lora_linear/dora_products.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kItemsOfNorms = 32;  // of a row of w, on GPUs
constexpr std::int64_t kMaxNormGroups = 1 << 15;

void record_norms_of_part(Batch& batch, const Tensor& squared, const Tensor& w) {
  const std::int64_t rows = w.shape()[0];
  const bool is_cpu = batch.context().device().kind == DeviceKind::cpu;
  const std::size_t items = is_cpu ? 1 : kItemsOfNorms;
  Defines defines;
  set_weight_type(defines, w);
  defines.set("ITEMS", items);
  const auto elements = static_cast<double>(w.elements());
  Launch launch{batch.context().kernel("weight_norms.cl", "weight_norms", defines),
                groups_of(items, static_cast<std::size_t>(std::min(rows, kMaxNormGroups))),
                {2 * elements, static_cast<double>(w.bytes())},
                "dora/weight_norms"};
  batch.launch(std::move(launch), squared, w, u32(rows), u32(w.shape()[1]));
}

// What the kernels of all layers read, in the order of cl/lora_linear/dora_layers.clh.
class LayerTables {
 public:
  LayerTables(const Context& context, const DoraLayers& all)
      : step_(std::max<std::size_t>(1, context.device().base_alignment_bytes / sizeof(float))) {
    for (const DoraLayer& layer : all.layers) add(layer);
  }

  std::size_t product_elements() const { return products_; }
  std::size_t gram_elements() const { return grams_; }
  std::size_t product_at(std::size_t layer) const { return product_at_[layer]; }
  // One for each row of a gram, and for kDoraGroup columns.
  std::size_t gram_groups() const { return gram_groups_.size() / 2; }
  std::size_t column_groups() const { return column_groups_.size() / 2; }
  Tensor layers(Context& context) const { return upload(context, words_); }
  Tensor groups_of_grams(Context& context) const { return upload(context, gram_groups_); }
  Tensor groups_of_columns(Context& context) const { return upload(context, column_groups_); }

 private:
  void add(const DoraLayer& layer);
  static Tensor upload(Context& context, const std::vector<std::uint32_t>& words) {
    return context.upload<std::uint32_t>({std::ssize(words)}, DType::u32, words,
                                         MemoryTag::adapters);
  }

  std::size_t step_;
  std::size_t products_ = 0, grams_ = 0;
  std::vector<std::size_t> product_at_;
  std::vector<std::uint32_t> words_, gram_groups_, column_groups_;
};

void LayerTables::add(const DoraLayer& layer) {
  const std::int64_t rank = layer.rank, columns = layer.w.shape()[0];
  const auto number = static_cast<std::uint32_t>(product_at_.size());
  for (std::int64_t r = 0; r < rank; ++r) gram_groups_.insert(gram_groups_.end(), {number, u32(r)});
  for (std::int64_t n = 0; n < columns; n += kDoraGroup) {
    column_groups_.insert(column_groups_.end(), {number, u32(n)});
  }
  for (const std::size_t offset :
       {layer.a, layer.bt, layer.magnitude, layer.columns, products_, grams_}) {
    if (offset > std::numeric_limits<std::uint32_t>::max()) {
      fail(ErrorCode::unsupported,
           "dora: offsets must be below 2^32 elements, got {}; use a lower rank or fewer target "
           "modules",
           offset);
    }
    words_.push_back(static_cast<std::uint32_t>(offset));
  }
  words_.insert(words_.end(), {u32(layer.w.shape()[1]), u32(columns), u32(rank),
                               std::bit_cast<std::uint32_t>(layer.scale)});
  product_at_.push_back(products_);
  products_ = round_up(products_ + static_cast<std::size_t>(rank * columns), step_);
  grams_ += static_cast<std::size_t>(rank * rank);
}

Tensor part_of(const Tensor& flat, std::size_t at, Shape shape) {
  return flat.slice(at * sizeof(float), shape, DType::f32);
}

void require_layers(const DoraLayers& all) {
  constexpr std::string_view kOp = "dora column_scales";
  require(!all.layers.empty(), "{}: at least one layer is required", kOp);
  require_tensor(kOp, "parameters", all.parameters, {all.parameters.elements()});
  require_tensor(kOp, "squared", all.squared, {all.column_scale.elements()});
  require_tensor(kOp, "column_scale", all.column_scale, {all.column_scale.elements()});
  const auto parameters = static_cast<std::size_t>(all.parameters.elements());
  const auto columns = static_cast<std::size_t>(all.column_scale.elements());
  for (const DoraLayer& layer : all.layers) {
    require_weight(kOp, "w", layer.w);
    const auto n = static_cast<std::size_t>(layer.w.shape()[0]);
    const auto k = static_cast<std::size_t>(layer.w.shape()[1]);
    const auto rank = static_cast<std::size_t>(layer.rank);
    require(layer.rank >= 1 && layer.a + rank * k <= parameters &&
                layer.bt + rank * n <= parameters && layer.magnitude + n <= parameters &&
                layer.columns + n <= columns,
            "{}: a layer [{}, {}] of rank {} must be within {} parameters and {} columns", kOp, n,
            k, layer.rank, parameters, columns);
  }
}

// a w^T of all layers: those that fit in one launch, one by one otherwise.
void record_products(Batch& batch, const Tensor& products, const DoraLayers& all,
                     const LayerTables& tables, const Tensor& layer_words) {
  Context& context = batch.context();
  std::vector<std::uint32_t> fitting;
  for (std::uint32_t i = 0; i < all.layers.size(); ++i) {
    if (dora_products_fit(context, all.layers[i])) fitting.push_back(i);
  }
  if (!fitting.empty() && !dora_products_passed(context)) fitting.clear();
  for (std::uint32_t i = 0; i < all.layers.size(); ++i) {
    if (std::ranges::binary_search(fitting, i)) continue;
    const DoraLayer& layer = all.layers[i];
    const std::int64_t n = layer.w.shape()[0], k = layer.w.shape()[1];
    record_gemm(batch, part_of(products, tables.product_at(i), {layer.rank, n}),
                part_of(all.parameters, layer.a, {layer.rank, k}), layer.w);
  }
  if (!fitting.empty()) record_dora_products(batch, products, all, layer_words, fitting);
}

Launch launch_of(Context& context, std::string_view function, std::size_t items, std::size_t groups,
                 Cost cost) {
  return {context.kernel("dora.cl", function, dora_defines(context, 1)), groups_of(items, groups),
          cost, fmt::format("dora/{}", function.substr(function.find('_') + 1))};
}

}  // namespace

void record_weight_norms(Batch& batch, const Tensor& squared, const Weight& w) {
  require_weight("weight norms", "w", w);
  require_tensor("weight norms", "squared", squared, {w.shape()[0]});
  std::int64_t begin = 0;
  for (const Tensor& part : w.parts()) {
    const std::int64_t rows = part.shape()[0];
    record_norms_of_part(batch, w.is_split() ? squared.rows(begin, rows) : squared, part);
    begin += rows;
  }
}

void record_column_scales(Batch& batch, const DoraLayers& all) {
  require_layers(all);
  Context& context = batch.context();
  const LayerTables tables(context, all);
  const auto flat = [&](std::size_t elements, std::string_view name) {
    return batch.temporary({static_cast<std::int64_t>(elements)}, DType::f32, name);
  };
  const Tensor products = flat(tables.product_elements(), "dora a w^T");
  const Tensor grams = flat(tables.gram_elements(), "dora a a^T");
  const Tensor layers = tables.layers(context);
  record_products(batch, products, all, tables, layers);
  Cost of_gram, of_columns;
  for (const DoraLayer& layer : all.layers) {
    const std::int64_t rank = layer.rank, n = layer.w.shape()[0], k = layer.w.shape()[1];
    of_gram.flops += static_cast<double>(rank * (rank + 1) * k);
    of_gram.bytes += 4 * static_cast<double>(rank * k);
    of_columns.flops += static_cast<double>(rank * (rank + 4) * n);
    of_columns.bytes += 8 * static_cast<double>(rank * n);
  }
  batch.launch(
      launch_of(context, "dora_gram", dora_sum_group(context), tables.gram_groups(), of_gram),
      grams, all.parameters, layers, tables.groups_of_grams(context));
  batch.launch(
      launch_of(context, "dora_column_scale", kDoraGroup, tables.column_groups(), of_columns),
      all.column_scale, all.parameters, all.squared, products, grams, layers,
      tables.groups_of_columns(context));
}

}  // namespace clora
