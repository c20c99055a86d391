#include "clora/lora/compression.hpp"

#include <algorithm>
#include <cmath>

#include "lora/low_rank.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

ModuleMatrices resized(const ModuleMatrices& module, const ResizeConfig& config) {
  const LowRank product = product_of(module, 1);
  if (config.energy == 1 && module.rank <= config.rank) return module_of(module.site, product);
  const Decomposition whole = decompose(product);
  const std::int64_t rank =
      std::min(rank_of_energy(whole.s, config.energy * whole.s.squaredNorm()), config.rank);
  if (rank == module.rank) return module_of(module.site, product);
  return module_of(module.site, truncated(whole, rank));
}

ModuleMatrices without_small_ranks(const ModuleMatrices& module, double share) {
  const LowRank product = product_of(module, 1);
  if (share == 0) return module_of(module.site, product);
  const Decomposition whole = decompose(product);
  const double least = share * whole.s.squaredNorm();
  const auto kept = (whole.s.array().square() >= least).count();
  const auto rank = std::max<std::int64_t>(1, static_cast<std::int64_t>(kept));
  if (rank == module.rank) return module_of(module.site, product);
  return module_of(module.site, truncated(whole, rank));
}

AdapterMatrices result_of(std::vector<ModuleMatrices> modules, const AdapterMatrices& origin) {
  const AdapterMatrices* const origins[] = {&origin};
  return make_adapter_matrices(std::move(modules), origins);
}

}  // namespace

AdapterMatrices resize_adapter(const AdapterMatrices& adapter, const ResizeConfig& config) {
  require(config.rank >= 1 && config.rank <= Adapter::kMaxRank,
          "resize: the rank must be from 1 to {}, got {}", Adapter::kMaxRank, config.rank);
  require(config.energy > 0 && config.energy <= 1,
          "resize: the energy must be above 0 and at most 1, got {}", config.energy);
  std::vector<ModuleMatrices> modules;
  for (const ModuleMatrices& module : adapter.modules) modules.push_back(resized(module, config));
  return result_of(std::move(modules), adapter);
}

AdapterMatrices prune_adapter(const AdapterMatrices& adapter, const PruneConfig& config) {
  for (const double share : {config.module_share, config.rank_share}) {
    require(share >= 0 && share < 1, "prune: a share must be at least 0 and below 1, got {}",
            share);
  }
  std::vector<double> energies;
  double all = 0;
  for (const ModuleMatrices& module : adapter.modules) {
    const double norm = norm_of(product_of(module, 1));
    energies.push_back(norm * norm);
    all += norm * norm;
  }
  std::vector<ModuleMatrices> modules;
  for (std::size_t i = 0; i < energies.size(); ++i) {
    if (energies[i] < config.module_share * all) continue;
    modules.push_back(without_small_ranks(adapter.modules[i], config.rank_share));
  }
  require(!modules.empty(),
          "prune: no module has {} of the adapter's energy, so none would be left",
          config.module_share);
  return result_of(std::move(modules), adapter);
}

}  // namespace clora
