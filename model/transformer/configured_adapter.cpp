#include "model/transformer/configured_adapter.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <vector>

#include "clora/model/transformer/adapter_sites.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "clora/model/transformer/saved_tensors.hpp"
#include "lora/module_selection.hpp"
#include "lora/saved_tensors.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

std::set<std::string> last_parts(const std::vector<AdapterSite>& sites) {
  std::set<std::string> names;
  for (const AdapterSite& site : sites) {
    names.insert(site.path.substr(site.path.rfind('.') + 1));
  }
  return names;
}

// A misspelt name would silently leave layers out.
void require_names(const std::vector<std::string>& names, const std::vector<AdapterSite>& sites,
                   const std::string& who) {
  for (const std::string& name : names) {
    const auto is_named = [&](const AdapterSite& site) { return names_module({name}, site.path); };
    require(std::ranges::any_of(sites, is_named),
            "{}: target_modules must name layers of the model (all-linear, {}), got '{}'", who,
            fmt::join(last_parts(sites), ", "), name);
  }
}

std::vector<AdapterModule> modules_of(const AdapterConfig& config,
                                      const std::vector<AdapterSite>& sites,
                                      const std::string& who) {
  ModuleSelection selection(config, who);
  std::vector<AdapterModule> modules;
  for (const AdapterSite& site : sites) {
    if (!selection.selects(site.path)) continue;
    const std::int64_t rank = selection.rank(site.path);
    const double scale = adapter_scale(config, selection.alpha(site.path), rank);
    modules.push_back({.site = site, .rank = rank, .scale = static_cast<float>(scale)});
  }
  require(!modules.empty(), "{}: the configuration must select at least one layer, got none", who);
  return modules;
}

std::vector<SavedTensor> trained_tensors(const ModelConfig& model, const AdapterConfig& config,
                                         const std::vector<AdapterModule>& modules,
                                         const std::string& who) {
  require_savable(model, config);
  std::vector<AdapterSite> adapted;
  for (const AdapterModule& module : modules) adapted.push_back(module.site);
  return select_trained_tensors(savable_tensors(model), config, adapted, who);
}

}  // namespace

void target_all_linear(AdapterConfig& config, const ModelConfig& model) {
  const std::set<std::string> names = last_parts(select_sites(model, {"all-linear"}, 0));
  config.target_modules.assign(names.begin(), names.end());
  config.targets_are_regex = false;
}

Adapter configured_adapter(LanguageModel& model, AdapterConfig config, const AdapterStart& start,
                           const std::string& who) {
  const auto sites = all_adapter_sites(model.config());
  if (!config.targets_are_regex) require_names(config.target_modules, sites, who);
  if (start.principal) {  // the first matrices are kept beside the trained ones
    require(config.rank_pattern.empty() && config.alpha_pattern.empty(),
            "{}: first matrices from the weights (pissa, olora) take neither rank_pattern nor "
            "alpha_pattern",
            who);
    config.rank *= 2;
    config.alpha *= 2;
  }
  const auto modules = modules_of(config, sites, who);
  Adapter adapter(model.context(), modules, config,
                  trained_tensors(model.config(), config, modules, who));
  adapter.initialise(start.seed);
  if (start.principal) check_principal_start(adapter);
  initialise_from_model(model, adapter, start.principal);
  return adapter;
}

}  // namespace clora
