// Which linear layers an adapter's configuration selects, and the rank and alpha of each: PEFT's
// rules (0.21), so that one configuration means the same here and there.
//
// target_modules and exclude_modules: a list names whole paths or the ends of paths after a dot; a
// regular expression must match a whole path. layers_to_transform: the block's number is the first
// one after two parts of the path, or the one after a part that layers_pattern matches; a path that
// target_modules names whole is selected in any block. rank_pattern, alpha_pattern: the first key
// that, as a regular expression, matches the whole path or its end after a dot.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lora/adapter.hpp"
#include "lora/path_regex.hpp"

namespace clora {

class ModuleSelection {
 public:
  // Compiles the expressions; `source` is the file that errors name, and `config` must outlive this
  // object. Errors: those of PathRegex; invalid_file where keys contradict one another.
  ModuleSelection(const AdapterConfig& config, const std::string& source);

  // Errors, of each: invalid_file where an expression takes too long.
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

// Sets what selects exactly the sites `chosen` out of `all`: the last parts of their paths in
// target_modules, layers_to_transform where that is not enough, whole paths where neither is.
void select_exactly(AdapterConfig& config, const std::vector<AdapterSite>& chosen,
                    const std::vector<AdapterSite>& all);

// The configuration that an adapter is saved with: its own where that selects its modules and no
// others of the same layers in any block up to the last one adapted, and gives each its rank and
// scale. What does not hold is replaced: the selection as by select_exactly(), or by whole paths
// where there is none; ranks and alphas by patterns of whole paths.
AdapterConfig config_to_save(const Adapter& adapter);

}  // namespace clora
