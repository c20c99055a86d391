#include "clora/lora/adapter_values.hpp"

#include <algorithm>
#include <span>

namespace clora {
namespace {

std::vector<float> copy_of(std::span<const float> flat, std::size_t offset, std::int64_t elements) {
  const auto part = flat.subspan(offset, static_cast<std::size_t>(elements));
  return {part.begin(), part.end()};
}

void put(std::vector<float>& flat, std::size_t offset, const std::vector<float>& values) {
  std::ranges::copy(values, flat.begin() + static_cast<std::ptrdiff_t>(offset));
}

std::vector<SavedTensor> tensors_of(const AdapterValues& values) {
  std::vector<SavedTensor> tensors;
  for (const SavedValues& saved : values.saved) tensors.push_back(saved.tensor);
  return tensors;
}

}  // namespace

std::vector<float> transposed(std::span<const float> in, std::int64_t rows, std::int64_t columns) {
  std::vector<float> out(in.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      out[static_cast<std::size_t>(c * rows + r)] = in[static_cast<std::size_t>(r * columns + c)];
    }
  }
  return out;
}

std::vector<AdapterModule> modules_of(const AdapterValues& values) {
  std::vector<AdapterModule> modules;
  for (const ModuleValues& module : values.modules) {
    modules.push_back({module.site, module.rank, module.scale});
  }
  return modules;
}

Adapter to_device(Context& context, const AdapterValues& values) {
  Adapter adapter(context, modules_of(values), values.config, tensors_of(values));
  std::vector<float> flat(static_cast<std::size_t>(adapter.parameters().elements()));
  for (std::size_t i = 0; i < values.modules.size(); ++i) {
    const ModuleValues& from = values.modules[i];
    const AdapterModule& module = adapter.modules()[i];
    put(flat, module.a_offset, from.a);
    put(flat, module.bt_offset, transposed(from.b, from.site.outputs, from.rank));
    if (values.config.use_dora) put(flat, module.magnitude_offset, from.magnitude);
  }
  for (std::size_t i = 0; i < values.saved.size(); ++i) {
    put(flat, adapter.saved_tensors()[i].offset, values.saved[i].values);
  }
  context.write(adapter.parameters(), std::as_bytes(std::span(flat)));
  return adapter;
}

AdapterValues values_of(const Adapter& adapter) {
  AdapterValues values{.config = adapter.config(), .modules = {}, .saved = {}};
  const std::vector<float> flat = adapter.context().read<float>(adapter.parameters());
  for (const AdapterModule& module : adapter.modules()) {
    const auto& [path, inputs, outputs] = module.site;
    ModuleValues& to = values.modules.emplace_back(
        ModuleValues{module.site, module.rank, module.scale, {}, {}, {}});
    to.a = copy_of(flat, module.a_offset, module.rank * inputs);
    to.b = transposed(copy_of(flat, module.bt_offset, module.rank * outputs), module.rank, outputs);
    if (values.config.use_dora) to.magnitude = copy_of(flat, module.magnitude_offset, outputs);
  }
  for (const SavedTensor& tensor : adapter.saved_tensors()) {
    values.saved.push_back({tensor, copy_of(flat, tensor.offset, tensor.shape.elements())});
  }
  return values;
}

}  // namespace clora
