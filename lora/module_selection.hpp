// The linear layers that an adapter's configuration selects, and the rank and alpha of each, by the
// rules of PEFT (0.21), so that a configuration means the same in both.
//
// target_modules and exclude_modules: a list names full paths or the ends of paths after a dot; a
// regular expression must match a full path. layers_to_transform: the block's number is the first
// one after two parts of the path, or the one after a part that layers_pattern matches; a full path
// in target_modules is selected in any block. rank_pattern, alpha_pattern: the first key that, as a
// regular expression, matches the full path or its end after a dot.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "lora/path_regex.hpp"

namespace clora {

// Whether one of `names` is the path or its end after a dot.
bool names_module(const std::vector<std::string>& names, std::string_view path);

class ModuleSelection {
 public:
  // Compiles the expressions; `source` is the file named in errors, and `config` must outlive this
  // object. Errors: those of PathRegex; invalid_file if keys contradict one another.
  ModuleSelection(const AdapterConfig& config, const std::string& source);

  // Errors (all three): invalid_file if an expression takes too long.
  bool selects(std::string_view path);
  std::int64_t rank(std::string_view path);
  double alpha(std::string_view path);

 private:
  bool is_excluded(std::string_view path);
  bool is_in_layers(std::string_view path);

  const AdapterConfig& config_;
  RegexBudget budget_;
  std::vector<PathRegex> targets_, excludes_;  // at most one each
  std::vector<PathRegex> layers_, ranks_, alphas_;
};

// Makes `config` select exactly the sites `chosen` out of `all`: by the last parts of their paths
// in target_modules, with layers_to_transform if that is not enough, or by full paths.
void select_exactly(AdapterConfig& config, const std::vector<AdapterSite>& chosen,
                    const std::vector<AdapterSite>& all);

// The configuration to save an adapter with: its own, if that selects its modules and no others of
// the same layers in any block up to the last one adapted, and gives each its rank and scale.
// Otherwise the incorrect parts are replaced: the selection as by select_exactly(), or by full
// paths if there is none; ranks and alphas by patterns of full paths.
AdapterConfig config_to_save(const Adapter& adapter);
// The same for an adapter with this configuration and these modules, of which the offsets are
// ignored.
AdapterConfig config_to_save(const AdapterConfig& own, const std::vector<AdapterModule>& modules);

}  // namespace clora
