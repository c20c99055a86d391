#include "clora/model/transformer/column_scales.hpp"

#include <vector>

#include "clora/ops/lora_linear/dora.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

void refuse_experts(const Adapter& adapter) {
  for (const AdapterModule& module : adapter.modules()) {
    if (module.site.path.find(".experts.") == std::string::npos) continue;
    fail(ErrorCode::unsupported,
         "adapter: DoRA is not supported for experts, such as {}; leave them out of the target "
         "modules, or merge the adapter into its base model with clora fuse",
         module.site.path);
  }
}

// Records the norms of the weights into new tensors, one for each module.
std::vector<Tensor> record_norms(Batch& batch, const LanguageModel& model, const Adapter& adapter) {
  std::vector<Tensor> all;
  for (const AdapterModule& module : adapter.modules()) {
    all.push_back(
        batch.context().allocate({module.site.outputs}, DType::f32, MemoryTag::adapters));
    record_weight_norms(batch, all.back(), model.linear(module.site.path).weights.w);
  }
  return all;
}

}  // namespace

ColumnScales::ColumnScales(LanguageModel& model, const Adapter* adapter) : batch_(model.context()) {
  if (adapter == nullptr || !adapter->config().use_dora) return;
  refuse_experts(*adapter);
  record(model, *adapter);
  update();
}

void ColumnScales::record(LanguageModel& model, const Adapter& adapter) {
  Context& context = model.context();
  Batch once(context);
  const std::vector<Tensor> squared = record_norms(once, model, adapter);
  once.submit().wait();
  for (std::size_t i = 0; i < squared.size(); ++i) {
    const AdapterModule& module = adapter.modules()[i];
    const Tensor scale =
        context.allocate({module.site.outputs}, DType::f32, MemoryTag::adapters);
    record_column_scale(batch_, scale,
                        {.magnitude = adapter.magnitude(module.site.path),
                         .squared = squared[i],
                         .w = model.linear(module.site.path).weights.w,
                         .lora = adapter.weights(module.site.path)});
    scales_.emplace(module.site.path, scale);
  }
  batch_.seal();
}

void ColumnScales::update() {
  if (!scales_.empty()) batch_.submit();
}

Tensor ColumnScales::of(std::string_view path) const {
  const auto at = scales_.find(path);
  return at == scales_.end() ? Tensor() : at->second;
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
    std::vector<float> norms = context.read<float>(scales.of(module.site.path));
    for (float& value : norms) value = value == 0 ? 0 : 1 / value;
    context.write(adapter.magnitude(module.site.path), std::as_bytes(std::span(norms)));
  }
}

}  // namespace clora
