#include "lora/module_selection.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "runtime/fail.hpp"
#include "runtime/parse_integer.hpp"

namespace clora {
namespace {

// Matches the number of a block if layers_pattern is not given.
constexpr std::string_view kAnyLayer = R"(.*?\.[^.]*\.(?P<idx>\d+)\.)";

bool names_path(const std::vector<std::string>& paths, std::string_view path) {
  return std::ranges::find(paths, path) != paths.end();
}

template <class T>
std::vector<PathRegex> compiled(const ModulePatterns<T>& patterns, const std::string& source,
                                std::string_view name) {
  std::vector<PathRegex> regexes;
  for (const auto& [key, value] : patterns) {
    regexes.emplace_back(fmt::format("(.*\\.)?({})$", key), PathRegex::Anchor::start,
                         fmt::format("{}: the key '{}' of {}", source, key, name));
  }
  return regexes;
}

template <class T>
T first_match(const ModulePatterns<T>& patterns, const std::vector<PathRegex>& regexes,
              std::string_view path, RegexBudget& budget, T otherwise) {
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (regexes[i].matches(path, budget)) return patterns[i].second;
  }
  return otherwise;
}

std::vector<std::string> paths_of(const std::vector<AdapterSite>& sites) {
  std::vector<std::string> paths;
  for (const AdapterSite& site : sites) paths.push_back(site.path);
  return paths;
}

// True iff the configuration selects exactly the paths `wanted` out of `all`.
bool is_exact(const AdapterConfig& config, std::vector<std::string> wanted,
              const std::vector<std::string>& all) {
  ModuleSelection selection(config, "adapter");
  std::vector<std::string> selected;
  for (const std::string& path : all) {
    if (selection.selects(path)) selected.push_back(path);
  }
  std::ranges::sort(selected);
  std::ranges::sort(wanted);
  return selected == wanted;
}

void clear_selection(AdapterConfig& config) {
  config.target_modules.clear();
  config.targets_are_regex = false;
  config.exclude_modules.clear();
  config.excludes_are_regex = false;
  config.layers_to_transform.clear();
  config.layers_pattern.clear();
}

std::vector<std::string> last_parts(const std::vector<std::string>& paths) {
  std::vector<std::string> parts;
  for (const std::string& path : paths) {
    std::string part = path.substr(path.rfind('.') + 1);
    if (std::ranges::find(parts, part) == parts.end()) parts.push_back(std::move(part));
  }
  return parts;
}

// A path with the number of its block: "model.layers.", 3, ".mlp.up_proj".
struct BlockPath {
  std::string before;
  std::int64_t number = 0;
  std::string after;
};

std::optional<BlockPath> block_path(const std::string& path) {
  std::size_t dot = path.find('.', path.find('.') + 1);
  while (dot != std::string::npos) {
    const std::size_t end = path.find('.', dot + 1);
    if (end == std::string::npos) return std::nullopt;
    const auto number = parse_integer(path.substr(dot + 1, end - dot - 1));
    if (number) return BlockPath{path.substr(0, dot + 1), *number, path.substr(end)};
    dot = end;
  }
  return std::nullopt;
}

std::vector<std::int64_t> layers_of(const std::vector<std::string>& paths) {
  std::set<std::int64_t> layers;
  for (const std::string& path : paths) {
    if (const auto block = block_path(path)) layers.insert(block->number);
  }
  return {layers.begin(), layers.end()};
}

// The paths, and those of the same layers in every block up to the last one that the paths name:
// the minimum that the base model has.
std::vector<std::string> paths_of_blocks(const std::vector<std::string>& paths) {
  constexpr std::int64_t kMaxBlocks = 65536;
  const std::vector<std::int64_t> layers = layers_of(paths);
  const std::int64_t blocks = layers.empty() ? 0 : std::min(layers.back() + 1, kMaxBlocks);
  std::set<std::pair<std::string, std::string>> kinds;
  for (const std::string& path : paths) {
    if (const auto block = block_path(path)) kinds.emplace(block->before, block->after);
  }
  std::set<std::string> all(paths.begin(), paths.end());
  for (const auto& [before, after] : kinds) {
    for (std::int64_t n = 0; n < blocks; ++n) all.insert(fmt::format("{}{}{}", before, n, after));
  }
  return {all.begin(), all.end()};
}

void select_paths(AdapterConfig& config, const std::vector<std::string>& wanted,
                  const std::vector<std::string>& all) {
  clear_selection(config);
  config.target_modules = last_parts(wanted);
  if (is_exact(config, wanted, all)) return;
  config.layers_to_transform = layers_of(wanted);
  if (is_exact(config, wanted, all)) return;
  clear_selection(config);
  config.target_modules = wanted;
}

// If the configuration has no target modules, only full paths are exact for any base model.
void resolve_selection(AdapterConfig& config, const std::vector<AdapterModule>& modules) {
  std::vector<std::string> paths;
  for (const AdapterModule& module : modules) paths.push_back(module.site.path);
  if (config.target_modules.empty()) {
    clear_selection(config);
    config.target_modules = paths;
    return;
  }
  const std::vector<std::string> all = paths_of_blocks(paths);
  if (!is_exact(config, paths, all)) select_paths(config, paths, all);
}

bool patterns_hold(const AdapterConfig& config, const std::vector<AdapterModule>& modules) {
  ModuleSelection selection(config, "adapter");
  return std::ranges::all_of(modules, [&](const AdapterModule& module) {
    const std::string& path = module.site.path;
    const double scale = adapter_scale(config, selection.alpha(path), module.rank);
    return selection.rank(path) == module.rank && static_cast<float>(scale) == module.scale;
  });
}

// A path is a key that matches only itself: a dot matches any character, but no two paths of a
// model differ only in a dot. config_to_save() checks it.
void write_patterns(AdapterConfig& config, const std::vector<AdapterModule>& modules) {
  config.rank_pattern.clear();
  config.alpha_pattern.clear();
  for (const AdapterModule& module : modules) {
    const std::string& path = module.site.path;
    if (module.rank != config.rank) config.rank_pattern.emplace_back(path, module.rank);
    const double scale = adapter_scale(config, config.alpha, module.rank);
    if (static_cast<float>(scale) == module.scale) continue;
    const double alpha = double{module.scale} / adapter_scale(config, 1, module.rank);
    config.alpha_pattern.emplace_back(path, alpha);
  }
}

}  // namespace

bool names_module(const std::vector<std::string>& ends, std::string_view path) {
  return std::ranges::any_of(
      ends, [&](const std::string& end) { return path == end || path.ends_with("." + end); });
}

ModuleSelection::ModuleSelection(const AdapterConfig& config, const std::string& source)
    : config_(config),
      ranks_(compiled(config.rank_pattern, source, "rank_pattern")),
      alphas_(compiled(config.alpha_pattern, source, "alpha_pattern")) {
  const auto add_regex = [&](const std::vector<std::string>& one, std::vector<PathRegex>& regexes,
                             const char* key) {
    if (one.size() != 1)
      fail(ErrorCode::invalid_file, "{}: {} must be one regular expression", source, key);
    regexes.emplace_back(one.front(), PathRegex::Anchor::full, fmt::format("{}: {}", source, key));
  };
  if (config.targets_are_regex) add_regex(config.target_modules, targets_, "target_modules");
  if (config.excludes_are_regex) add_regex(config.exclude_modules, excludes_, "exclude_modules");
  const bool has_layers = !config.layers_to_transform.empty();
  if (config.targets_are_regex && has_layers)
    fail(ErrorCode::invalid_file,
         "{}: layers_to_transform requires a list in target_modules, got a regular expression",
         source);
  if (!config.layers_pattern.empty() && !has_layers)
    fail(ErrorCode::invalid_file, "{}: layers_pattern requires layers_to_transform", source);
  for (const std::string& pattern : config.layers_pattern) {
    layers_.emplace_back(fmt::format("(?:^|.*?\\.){}\\.(?P<idx>\\d+)\\.", pattern),
                         PathRegex::Anchor::start, source + ": layers_pattern");
  }
  if (has_layers && layers_.empty()) {
    layers_.emplace_back(std::string(kAnyLayer), PathRegex::Anchor::start, source);
  }
}

bool ModuleSelection::is_excluded(std::string_view path) {
  if (config_.excludes_are_regex) return excludes_.front().matches(path, budget_);
  return names_module(config_.exclude_modules, path);
}

// The first expression that matches decides, even if its number is not in the list.
bool ModuleSelection::is_in_layers(std::string_view path) {
  const std::vector<std::int64_t>& layers = config_.layers_to_transform;
  if (layers.empty()) return true;
  for (const PathRegex& regex : layers_) {
    if (!regex.matches(path, budget_)) continue;
    const auto digits = regex.group(path, "idx", budget_);
    const auto number = digits ? parse_integer(*digits) : std::nullopt;
    return number && std::ranges::find(layers, *number) != layers.end();
  }
  return false;
}

bool ModuleSelection::selects(std::string_view path) {
  if (is_excluded(path)) return false;
  if (config_.targets_are_regex) return targets_.front().matches(path, budget_);
  if (names_path(config_.target_modules, path)) return true;
  return names_module(config_.target_modules, path) && is_in_layers(path);
}

std::int64_t ModuleSelection::rank(std::string_view path) {
  return first_match(config_.rank_pattern, ranks_, path, budget_, config_.rank);
}

double ModuleSelection::alpha(std::string_view path) {
  return first_match(config_.alpha_pattern, alphas_, path, budget_, config_.alpha);
}

void select_exactly(AdapterConfig& config, const std::vector<AdapterSite>& chosen,
                    const std::vector<AdapterSite>& all) {
  select_paths(config, paths_of(chosen), paths_of(all));
}

AdapterConfig config_to_save(const Adapter& adapter) {
  return config_to_save(adapter.config(), adapter.modules());
}

AdapterConfig config_to_save(const AdapterConfig& own, const std::vector<AdapterModule>& modules) {
  AdapterConfig config = own;
  resolve_selection(config, modules);
  if (patterns_hold(config, modules)) return config;
  write_patterns(config, modules);
  require(patterns_hold(config, modules),
          "adapter: the ranks and scales of its modules cannot be written as patterns; no module "
          "path may match the pattern of another");
  return config;
}

}  // namespace clora
