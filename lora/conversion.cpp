#include "clora/lora/conversion.hpp"

#include <array>

#include "clora/lora/combination.hpp"
#include "lora/matrices_reading.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// The module of the other adapter, which must be of the same training.
void require_counterpart(const ModuleMatrices& module, const AdapterMatrices& other,
                         const std::filesystem::path& folder) {
  const ModuleMatrices* found = other.find(module.site.path);
  require(found != nullptr,
          "convert: the adapter '{}' has no matrices of {}; both must be of one "
          "training, with the same modules",
          folder.string(), module.site.path);
  require(found->rank == module.rank && found->scale == module.scale,
          "convert: {} must have the same rank and scale in both adapters, got rank {} with scale "
          "{} and, in '{}', rank {} with scale {}",
          module.site.path, module.rank, module.scale, folder.string(), found->rank, found->scale);
}

}  // namespace

AdapterMatrices converted_adapter(const std::filesystem::path& trained,
                                  const std::filesystem::path& initial) {
  const AdapterMatrices last = read_adapter_matrices(trained, BaseWeights::changed);
  const AdapterMatrices first = read_adapter_matrices(initial, BaseWeights::either);
  for (const ModuleMatrices& module : last.modules) require_counterpart(module, first, initial);
  for (const ModuleMatrices& module : first.modules) require_counterpart(module, last, trained);
  const std::array<WeightedAdapter, 2> difference{{{&last, 1}, {&first, -1}}};
  return combine(difference, {.type = CombinationType::cat});
}

}  // namespace clora
