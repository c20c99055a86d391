// clc cache: lists and removes the programs in clora's program cache.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/fail.hpp"
#include "tools/clc/commands/commands.hpp"
#include "tools/clc/commands/common_options.hpp"
#include "tools/command_line/cached_programs.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clc cache list
  clc cache list --file gemm            only those of files whose names contain 'gemm'
  clc cache verify                      reads every byte; exit code 1 if an entry is damaged
  clc cache clear --file gemm.cl
  clc cache warm --model MODEL.gguf     builds what the first step and the first token need
The folder is CLORA_CACHE_DIR, else XDG_CACHE_HOME/clora, else ~/.cache/clora.)";

struct CacheOptions {
  ClcOptions common;
  std::string file;  // a part of its name; empty: all
};

using Listed = DiskProgramStore::Listed;

std::filesystem::path cache_folder() {
  const std::filesystem::path folder = default_cache_folder();
  if (folder.empty()) {
    fail(ErrorCode::not_found, "cache: the environment names no cache folder; set CLORA_CACHE_DIR");
  }
  return folder;
}

// The programs of the selected files; an unreadable one always matches.
std::vector<CachedProgram> selected_programs(const CacheOptions& options) {
  std::vector<CachedProgram> all = cached_programs(cache_folder());
  std::erase_if(all, [&](const CachedProgram& each) {
    return each.facts && each.facts->key.file.find(options.file) == std::string::npos;
  });
  return all;
}

double days_unused(const Listed& listed) {
  const auto unused = std::filesystem::file_time_type::clock::now() - listed.used;
  return std::chrono::duration<double, std::ratio<86400>>(unused).count();
}

nlohmann::ordered_json json_of(const CachedProgram& entry) {
  nlohmann::ordered_json object{{"name", entry.listed.name},
                                {"bytes", entry.listed.bytes},
                                {"days_unused", days_unused(entry.listed)},
                                {"state", entry.problem()}};
  if (!entry.facts) return object;
  object["file"] = entry.facts->key.file;
  object["options"] = entry.facts->key.options;
  object["device"] = entry.facts->key.device;
  object["driver"] = entry.facts->key.driver;
  object["functions"] = entry.facts->functions;
  return object;
}

void print(Output& output, const CachedProgram& entry) {
  const std::string size = readable_bytes(static_cast<double>(entry.listed.bytes));
  const std::string what =
      entry.facts ? fmt::format("{} {}", entry.facts->key.file, entry.facts->key.options)
                  : entry.listed.name;
  const std::string state = entry.problem();
  output.result("{:>10} {:6.1f} days  {}{}{}", size, days_unused(entry.listed), what,
                state.empty() ? "" : "  -- ", state);
  if (entry.facts)
    output.detail("    {}, driver {}", entry.facts->key.device, entry.facts->key.driver);
}

void sum_up(Output& output, const std::vector<CachedProgram>& all, std::string_view words) {
  double bytes = 0;
  for (const CachedProgram& entry : all) bytes += static_cast<double>(entry.listed.bytes);
  output.result("{} {}, {}", all.size(), words, readable_bytes(bytes));
}

int list(const CacheOptions& options) {
  Output output(options.common.output);
  const std::vector<CachedProgram> all = selected_programs(options);
  nlohmann::ordered_json objects = nlohmann::ordered_json::array();
  for (const CachedProgram& entry : all) {
    print(output, entry);
    objects.push_back(json_of(entry));
  }
  sum_up(output, all, "programs");
  output.object({{"programs", objects}});
  return 0;
}

int verify(const CacheOptions& options) {
  Output output(options.common.output);
  const std::vector<CachedProgram> all = selected_programs(options);
  nlohmann::ordered_json bad = nlohmann::ordered_json::array();
  for (const CachedProgram& entry : all) {
    if (entry.problem().empty()) continue;
    print(output, entry);
    bad.push_back(json_of(entry));
  }
  sum_up(output, all, "programs read");
  output.result("{}",
                bad.empty()
                    ? "all are intact"
                    : "the programs above are rebuilt when needed; 'clc cache clear' removes them");
  output.object({{"read", all.size()}, {"bad", bad}});
  return bad.empty() ? 0 : 1;
}

int clear(const CacheOptions& options) {
  Output output(options.common.output);
  const std::vector<CachedProgram> all = selected_programs(options);
  DiskProgramStore folder = program_store_in(cache_folder());
  for (const CachedProgram& entry : all) folder.remove(entry.listed.name);
  sum_up(output, all, "programs removed");
  output.object({{"removed", all.size()}});
  return 0;
}

void add_action(CLI::App& cache, const char* name, const char* help, Action& action,
                int (*run)(const CacheOptions&)) {
  CLI::App* command = cache.add_subcommand(name, help);
  const auto options = std::make_shared<CacheOptions>();
  command->add_option("--file", options->file, "Only programs of files whose names contain TEXT")
      ->type_name("TEXT");
  add_output_options(*command, options->common);
  command->callback([options, run, &action] { action = [options, run] { return run(*options); }; });
}

}  // namespace

void add_cache_command(CLI::App& program, Action& action) {
  CLI::App* cache = program.add_subcommand("cache", "Manage the programs cached on disk");
  cache->require_subcommand(1);
  cache->footer(kFooter);
  add_action(*cache, "list", "List cached programs, most recently used first", action, list);
  add_action(*cache, "verify", "Check every byte of the cached programs", action, verify);
  add_action(*cache, "clear", "Remove cached programs", action, clear);
  add_cache_warm_command(*cache, action);
}

}  // namespace clora
