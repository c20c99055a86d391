#include "clora/model/transformer/column_scales.hpp"

#include <algorithm>
#include <vector>

#include "clora/ops/lora_linear/dora.hpp"
#include "lora/end_modules.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

bool has_columns(const std::string& path) {
  return path.find(".experts.") == std::string::npos && path != kEmbeddingsPath &&
         path != kHeadPath;
}

// Whether the module belongs to another stage of a model that is split by layers.
bool is_elsewhere(const LanguageModel& model, const AdapterModule& module) {
  return !model.is_whole() && model.find_linear(module.site.path) == nullptr;
}

void refuse_others(const Adapter& adapter) {
  for (const AdapterModule& module : adapter.modules()) {
    if (has_columns(module.site.path)) continue;
    fail(ErrorCode::unsupported,
         "adapter: DoRA is not supported for experts, token embeddings and heads, such as {}; "
         "leave them out of the target modules, or merge the adapter into its base model with "
         "clora fuse",
         module.site.path);
  }
}

}  // namespace

ColumnScales::ColumnScales(LanguageModel& model, const Adapter* adapter) : batch_(model.context()) {
  if (adapter == nullptr || !adapter->config().use_dora) return;
  refuse_others(*adapter);
  record(model, *adapter);
  update();
}

Tensor ColumnScales::Columns::of(const Tensor& flat) const {
  return flat.slice(at * sizeof(float), {count}, DType::f32);
}

void ColumnScales::place(const LanguageModel& model, const Adapter& adapter) {
  const std::size_t step =
      std::max<std::size_t>(1, model.context().device().base_alignment_bytes / sizeof(float));
  for (const AdapterModule& module : adapter.modules()) {
    if (is_elsewhere(model, module)) continue;
    columns_[module.site.path] = {end_, module.site.outputs};
    end_ = round_up(end_ + static_cast<std::size_t>(module.site.outputs), step);
  }
}

void ColumnScales::record(LanguageModel& model, const Adapter& adapter) {
  Context& context = model.context();
  place(model, adapter);
  if (columns_.empty()) return;
  const Shape all{static_cast<std::int64_t>(end_)};
  squared_ = context.allocate(all, DType::f32, MemoryTag::adapters);
  scales_ = context.allocate(all, DType::f32, MemoryTag::adapters);
  Batch once(context);
  DoraLayers layers{
      .parameters = adapter.parameters(), .squared = squared_, .column_scale = scales_};
  for (const AdapterModule& module : adapter.modules()) {
    if (is_elsewhere(model, module)) continue;
    const Columns& columns = columns_.at(module.site.path);
    const Weight& w = model.linear(module.site.path).weights.w;
    record_weight_norms(once, columns.of(squared_), w);
    layers.layers.push_back({.w = w,
                             .rank = module.rank,
                             .scale = module.scale,
                             .a = module.a_offset,
                             .bt = module.bt_offset,
                             .magnitude = module.magnitude_offset,
                             .columns = columns.at});
  }
  once.submit().wait();
  record_column_scales(batch_, layers);
  batch_.seal();
}

void ColumnScales::update() {
  if (!columns_.empty()) batch_.submit();
}

Tensor ColumnScales::of(std::string_view path) const {
  const auto found = columns_.find(path);
  return found == columns_.end() ? Tensor() : found->second.of(scales_);
}

// With magnitudes of one, the factors are the inverses of the norms.
void initialise_magnitudes(LanguageModel& model, Adapter& adapter) {
  if (!adapter.config().use_dora) return;
  Context& context = model.context();
  for (const AdapterModule& module : adapter.modules()) {
    const std::vector<float> ones(static_cast<std::size_t>(module.site.outputs), 1.0F);
    context.write(adapter.magnitude(module.site.path), std::as_bytes(std::span(ones)));
  }
  if (context.config().dry_run) return;
  const ColumnScales scales(model, &adapter);
  for (const AdapterModule& module : adapter.modules()) {
    std::vector<float> norms(static_cast<std::size_t>(module.site.outputs), 0.0F);
    if (!is_elsewhere(model, module)) {
      norms = context.read<float>(scales.of(module.site.path));
      for (float& value : norms) value = value == 0 ? 0 : 1 / value;
    }
    context.write(adapter.magnitude(module.site.path), std::as_bytes(std::span(norms)));
  }
}

}  // namespace clora
