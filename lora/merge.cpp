#include "clora/lora/merge.hpp"

#include <cmath>

#include "lora/end_modules.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// DoRA's factor of a row.
double factor_of(std::span<const double> row, float magnitude) {
  double squares = 0;
  for (const double value : row) squares += value * value;
  return squares == 0 ? 0 : static_cast<double>(magnitude) / std::sqrt(squares);
}

}  // namespace

HostLora read_lora(const Adapter& adapter, std::string_view path) {
  const AdapterModule* module = adapter.find(path);
  require(module != nullptr, "merge: the adapter has no module '{}'", path);
  const LoraWeights weights = adapter.weights(path);
  Context& context = adapter.context();
  if (is_embedding(path)) {  // the transpose: w [V, D] += scale (b a)^T
    require(!adapter.config().use_dora, "merge: DoRA is not supported for token embeddings, got {}",
            path);
    return {.a = context.read<float>(weights.bt),
            .bt = context.read<float>(weights.a),
            .rank = module->rank,
            .inputs = module->site.outputs,
            .outputs = module->site.inputs,
            .scale = static_cast<double>(module->scale)};
  }
  return {.a = context.read<float>(weights.a),
          .bt = context.read<float>(weights.bt),
          .rank = module->rank,
          .inputs = module->site.inputs,
          .outputs = module->site.outputs,
          .scale = static_cast<double>(module->scale),
          .magnitude = adapter.config().use_dora ? context.read<float>(adapter.magnitude(path))
                                                 : std::vector<float>()};
}

void merge_into(std::span<float> w, const HostLora& lora) {
  const auto inputs = static_cast<std::size_t>(lora.inputs);
  const auto outputs = static_cast<std::size_t>(lora.outputs);
  require(w.size() == inputs * outputs, "merge: the weight must have {} elements, got {}",
          inputs * outputs, w.size());
  std::vector<double> row(inputs);
  for (std::size_t n = 0; n < outputs; ++n) {
    row.assign(inputs, 0);
    for (std::size_t r = 0; r < static_cast<std::size_t>(lora.rank); ++r) {
      const double b = lora.scale * static_cast<double>(lora.bt[r * outputs + n]);
      const float* a = &lora.a[r * inputs];
      for (std::size_t k = 0; k < inputs; ++k) row[k] += b * static_cast<double>(a[k]);
    }
    float* out = &w[n * inputs];
    for (std::size_t k = 0; k < inputs; ++k) row[k] += static_cast<double>(out[k]);
    const double factor = lora.magnitude.empty() ? 1 : factor_of(row, lora.magnitude[n]);
    for (std::size_t k = 0; k < inputs; ++k) out[k] = static_cast<float>(factor * row[k]);
  }
}

}  // namespace clora
