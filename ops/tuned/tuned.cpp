#include "ops/tuned/tuned.hpp"

#include <algorithm>

#include "clora/runtime/error.hpp"
#include "ops/dispatch/ops_state.hpp"
#include "ops/tuned/embedded_tuned_table.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

struct Tables {
  bool are_read = false;
  TunedTable user, project;
};

TunedTable read_user_table(const Context& context) {
  try {
    return TunedTable::read(tuned_table_path(context.config()));
  } catch (const Error& error) {
    context.hooks().log_message(LogLevel::warning, error.what());
  }
  return {};
}

const Tables& tables_of(const Context& context) {
  Tables& tables = ops_state<Tables>(context);
  if (!tables.are_read) tables = {true, read_user_table(context), project_tuned_table()};
  return tables;
}

bool has_all(const CostEntry& entry, std::span<const std::string> names) {
  return std::ranges::all_of(names, [&](const std::string& name) {
    const auto found = entry.values.find(name);
    return found != entry.values.end() && found->second >= 0 && found->second <= kMaxCost;
  });
}

}  // namespace

std::filesystem::path tuned_table_path(const ContextConfig& config) {
  if (!config.tuned_table.empty()) return config.tuned_table;
  return config.cache_folder.empty() ? config.cache_folder : config.cache_folder / "tuned.json";
}

TunedTable project_tuned_table() {
  return TunedTable::parse(embedded_tuned_table()[0].text, "ops/tuned/tuned.json");
}

NamedCosts tuned_costs(const Context& context, std::string_view model,
                       std::span<const std::string> names) {
  const Tables& tables = tables_of(context);
  const std::string& device = context.device().name;
  for (const CostEntry* entry :
       {tables.user.costs_of(model, device), tables.project.costs_of(model, device),
        tables.project.costs_for_other_devices(model)}) {
    if (entry != nullptr && has_all(*entry, names)) return entry->values;
  }
  fail(ErrorCode::invalid_argument,
       "ops/tuned/tuned.json: no costs of {} for '{}' or other devices", model, device);
}

NamedNumbers tuned_values(const Context& context, const TunableKernel& kernel) {
  const TunedKernel wanted{.device = context.device().name,
                           .file = std::string(kernel.file),
                           .kernel = std::string(kernel.kernel),
                           .options = kernel.fixed.text(),
                           .sizes = kernel.sizes};
  const Tables& tables = tables_of(context);
  for (const TunedTable* table : {&tables.user, &tables.project}) {
    if (const TunedEntry* entry = table->nearest(wanted)) return entry->values;
  }
  return {};
}

}  // namespace clora
