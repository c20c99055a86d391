// Adapters with random values on the host, for tests of files.
#pragma once

#include <functional>

#include "clora/lora/adapter_values.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "lora/end_modules.hpp"
#include "lora/module_selection.hpp"
#include "tests/support/op_test.hpp"

namespace clora::test {

inline ModuleValues random_module(const AdapterSite& site, std::int64_t rank, float scale,
                                  bool use_dora = false) {
  static std::uint32_t seed = 100;
  const auto values = [](std::int64_t rows, std::int64_t columns) {
    return random_values(static_cast<std::size_t>(rows * columns), ++seed);
  };
  return {.site = site,
          .rank = rank,
          .scale = scale,
          .a = values(rank, site.inputs),
          .b = values(site.outputs, rank),
          .magnitude = use_dora ? values(site.outputs, 1) : std::vector<float>()};
}

// With a configuration that fits the modules. `base` gives the rest of it.
inline AdapterValues adapter_of(std::vector<ModuleValues> modules, const ModelConfig& model,
                                AdapterConfig base = {}) {
  std::vector<AdapterSite> chosen;
  for (const ModuleValues& module : modules) chosen.push_back(module.site);
  base.rank = modules.front().rank;
  base.alpha = double{modules.front().scale} * static_cast<double>(base.rank);
  select_exactly(base, chosen, all_adapter_sites(model));
  AdapterValues values{.config = std::move(base), .modules = std::move(modules), .saved = {}};
  values.config = config_to_save(values.config, modules_of(values));
  return values;
}

// An adapter of the sites that `wanted` selects; without, of all but the ends.
inline AdapterValues random_adapter_values(
    const ModelConfig& model, std::int64_t rank = 3, float scale = 2, AdapterConfig base = {},
    const std::function<bool(const std::string& path)>& wanted = {}) {
  std::vector<ModuleValues> modules;
  for (const AdapterSite& site : all_adapter_sites(model)) {
    const bool is_end = site.path == kEmbeddingsPath || site.path == kHeadPath;
    if (wanted ? !wanted(site.path) : is_end) continue;
    modules.push_back(random_module(site, rank, scale, base.use_dora));
  }
  return adapter_of(std::move(modules), model, std::move(base));
}

}  // namespace clora::test
