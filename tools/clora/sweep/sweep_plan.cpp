#include "tools/clora/sweep/sweep_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tools/command_line/config_file.hpp"
#include "tools/command_line/toml_options.hpp"

namespace clora {
namespace {

constexpr const char* kGrid = "grid";
constexpr const char* kFolder = "adapter-out";
constexpr const char* kDevices = "devices";
// They belong to a single call; the sweep itself resumes.
constexpr std::array kNotOfARun{"config", "find-lr", "json", "overwrite", "quiet", "resume"};

using Items = std::vector<TomlOption>;

template <class... Args>
[[noreturn]] void refuse(const std::string& source, fmt::format_string<Args...> format,
                         Args&&... args) {
  throw UsageError(
      fmt::format("'{}': {}", source, fmt::format(format, std::forward<Args>(args)...)));
}

std::string list_text(const std::vector<std::string>& values) {
  std::vector<std::string> written;
  for (const std::string& value : values) written.push_back(toml_value(value));
  return fmt::format("[{}]", fmt::join(written, ", "));
}

std::string text_of(const TomlOption& item) {
  return item.is_array ? list_text(item.values) : toml_value(item.values.front());
}

const CLI::Option& option_of(const TomlOption& item, const CLI::App& train,
                             const std::string& source) {
  const CLI::Option* option = train.get_option_no_throw("--" + item.name);
  if (option == nullptr) {
    refuse(source, "{}", unknown_option_message("--" + item.name, train));
  }
  if (std::ranges::find(kNotOfARun, item.name) != kNotOfARun.end()) {
    refuse(source, "{} is not a setting of a run in a sweep; remove it", item.name);
  }
  return *option;
}

// Whether a run's settings replace an item of every run: the same option, or one that excludes it,
// as steps excludes epochs.
bool is_replaced(const TomlOption& item, const Items& settings, const CLI::App& train,
                 const std::string& source) {
  const CLI::Option& option = option_of(item, train, source);
  return std::ranges::any_of(settings, [&](const TomlOption& setting) {
    const CLI::Option& other = option_of(setting, train, source);
    return &other == &option || std::ranges::count(other.get_excludes(), &option) > 0;
  });
}

// A name for a folder: without slashes and other characters that are special to a shell.
std::string folder_name(std::string name) {
  for (char& c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       std::string_view("=,.-+_").find(c) != std::string_view::npos;
    if (!plain) c = '-';
  }
  return name.starts_with('.') ? "run" + name : name;
}

SweepRun run_of(std::string name, const Items& settings, const Items& base, const CLI::App& train,
                const std::string& source) {
  SweepRun run{.name = folder_name(std::move(name))};
  for (const TomlOption& item : base) {
    if (is_replaced(item, settings, train, source)) continue;
    run.configuration += fmt::format("{} = {}\n", item.name, text_of(item));
  }
  for (const TomlOption& item : settings) {
    if (item.name == kFolder) refuse(source, "{} is that of the sweep; remove it", kFolder);
    run.configuration += fmt::format("{} = {}\n", item.name, text_of(item));
    run.settings.push_back(
        {item.name, item.is_array ? list_text(item.values) : item.values.front()});
  }
  (void)arguments_from_config_text(run.configuration, source, train, {});  // checks the options
  return run;
}

// Every combination of the grid's values, the last option's values varying fastest.
std::vector<Items> combinations_of(const Items& grid, const std::string& source) {
  std::vector<Items> all(grid.empty() ? 0 : 1);
  for (const TomlOption& item : grid) {
    if (item.values.empty()) refuse(source, "[{}]: {} has no values", kGrid, item.name);
    std::vector<Items> longer;
    for (const Items& begun : all) {
      for (const std::string& value : item.values) {
        longer.push_back(begun);
        longer.back().push_back({"", item.name, {value}, false});
      }
    }
    if (longer.size() > kMaxSweepRuns) refuse(source, "more than {} runs", kMaxSweepRuns);
    all = std::move(longer);
  }
  return all;
}

std::string name_of(const Items& settings) {
  std::vector<std::string> parts;
  for (const TomlOption& item : settings) {
    parts.push_back(fmt::format("{}={}", item.name, item.values.front()));
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

// The items of each section; those of every run, without the sweep's own, are at "".
std::map<std::string, Items> sections_of(std::string_view text, const std::string& source,
                                         SweepPlan& plan) {
  std::map<std::string, Items> sections;
  for (TomlOption& item : parse_toml_options(text, source)) {
    if (item.section.empty() && item.name == kDevices) {
      plan.devices = item.values;
    } else if (item.section.empty() && item.name == kFolder && !item.is_array) {
      plan.folder = item.values.front();
    } else {
      Items& items = sections[item.section];
      if (!item.name.empty()) items.push_back(std::move(item));
    }
  }
  return sections;
}

void check(const SweepPlan& plan, const std::string& source) {
  if (plan.folder.empty()) refuse(source, "{}, the folder of the sweep, is required", kFolder);
  if (plan.runs.empty()) refuse(source, "a section [{}] or one for each run is required", kGrid);
  if (plan.runs.size() > kMaxSweepRuns) refuse(source, "more than {} runs", kMaxSweepRuns);
  std::set<std::string> names;
  for (const SweepRun& run : plan.runs) {
    if (!names.insert(run.name).second) refuse(source, "two runs are named '{}'", run.name);
  }
}

}  // namespace

SweepPlan sweep_plan_of(std::string_view text, const std::string& source, const CLI::App& train) {
  SweepPlan plan;
  const auto sections = sections_of(text, source, plan);
  const auto base = sections.find("");
  const Items of_all = base == sections.end() ? Items() : base->second;
  for (const auto& [section, items] : sections) {
    if (section.empty()) continue;
    if (section != kGrid) {
      plan.runs.push_back(run_of(section, items, of_all, train, source));
      continue;
    }
    for (const Items& settings : combinations_of(items, source)) {
      plan.runs.push_back(run_of(name_of(settings), settings, of_all, train, source));
    }
  }
  if (plan.devices.empty()) plan.devices.emplace_back();
  check(plan, source);
  return plan;
}

}  // namespace clora
