#include "model/adapter_files/found_modules.hpp"

#include "clora/model/transformer/adapter_sites.hpp"
#include "lora/module_selection.hpp"
#include "model/adapter_files/scale_folding.hpp"
#include "runtime/fail.hpp"

namespace clora {

AdapterValues adapter_of_found(std::vector<ModuleValues> modules, const ModelConfig& model,
                               const FoundSettings& settings) {
  if (modules.empty()) {
    fail(ErrorCode::invalid_file, "adapter '{}': it has no matrices", settings.source);
  }
  std::vector<double> ranks, alphas;
  std::vector<AdapterSite> chosen;
  for (const ModuleValues& module : modules) {
    ranks.push_back(static_cast<double>(module.rank));
    alphas.push_back(double{module.scale} * static_cast<double>(module.rank));
    chosen.push_back(module.site);
  }
  AdapterConfig config;
  config.rank = static_cast<std::int64_t>(most_frequent_nonzero(ranks));
  config.alpha = settings.alpha != 0 ? settings.alpha : most_frequent_nonzero(alphas);
  config.dropout = settings.dropout;
  config.use_dora = settings.use_dora;
  config.task_type = model.has_head ? kCausalLanguageModel : kFeatureExtraction;
  select_exactly(config, chosen, all_adapter_sites(model));
  AdapterValues values{.config = std::move(config), .modules = std::move(modules), .saved = {}};
  values.config = config_to_save(values.config, modules_of(values));
  return values;
}

}  // namespace clora
