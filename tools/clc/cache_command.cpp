// clc cache: lists and removes the programs in clora's program cache.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/fail.hpp"
#include "runtime/programs/program_entry.hpp"
#include "tools/clc/commands.hpp"
#include "tools/clc/common_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clc cache list
  clc cache list --file gemm            of files whose names contain this
  clc cache verify                      reads every byte; exit code 1 if an entry is damaged
  clc cache clear --file gemm.cl
  clc cache warm --model MODEL.gguf     builds what the first step and the first token need
The folder is CLORA_CACHE_DIR, else XDG_CACHE_HOME/clora, else ~/.cache/clora.)";

struct CacheOptions {
  ClcOptions common;
  std::string file;  // a part of its name; empty: all
};

using Listed = DiskProgramStore::Listed;

// A cache entry with its description, or the reason why the description cannot be read.
struct Entry {
  Listed listed;
  std::optional<ProgramEntryFacts> facts;
  std::string damage;
};

Entry read_entry(const Listed& listed) {
  Entry entry{.listed = listed, .facts = {}, .damage = {}};
  std::ifstream stream(listed.path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  try {
    entry.facts = describe_program_entry(std::as_bytes(std::span(text)));
    if (entry.facts->key.name() != listed.name) entry.damage = "it belongs to another program";
  } catch (const Error& error) {
    entry.damage = error.what();
  }
  return entry;
}

DiskProgramStore store() {
  const ContextConfig config = config_from_environment();
  if (config.cache_folder.empty()) {
    fail(ErrorCode::not_found, "cache: the environment names no cache folder; set CLORA_CACHE_DIR");
  }
  return {config.cache_folder / "programs", config.cache_limit_bytes};
}

// The entries of the selected files; an unreadable entry always matches.
std::vector<Entry> entries(const DiskProgramStore& store, const CacheOptions& options) {
  std::vector<Entry> all;
  for (const Listed& listed : store.list()) {
    Entry entry = read_entry(listed);
    const bool meant =
        !entry.facts || entry.facts->key.file.find(options.file) != std::string::npos;
    if (meant) all.push_back(std::move(entry));
  }
  return all;
}

double days_unused(const Listed& listed) {
  const auto unused = std::filesystem::file_time_type::clock::now() - listed.used;
  return std::chrono::duration<double, std::ratio<86400>>(unused).count();
}

std::string state_of(const Entry& entry) {
  if (!entry.damage.empty()) return entry.damage;
  return entry.listed.held_back ? "disabled: a process died while the driver loaded it" : "";
}

nlohmann::ordered_json json_of(const Entry& entry) {
  nlohmann::ordered_json object{{"name", entry.listed.name},
                                {"bytes", entry.listed.bytes},
                                {"days_unused", days_unused(entry.listed)},
                                {"state", state_of(entry)}};
  if (!entry.facts) return object;
  object["file"] = entry.facts->key.file;
  object["options"] = entry.facts->key.options;
  object["device"] = entry.facts->key.device;
  object["driver"] = entry.facts->key.driver;
  object["functions"] = entry.facts->functions;
  return object;
}

void print(Output& output, const Entry& entry) {
  const std::string size = readable_bytes(static_cast<double>(entry.listed.bytes));
  const std::string what =
      entry.facts ? fmt::format("{} {}", entry.facts->key.file, entry.facts->key.options)
                  : entry.listed.name;
  const std::string state = state_of(entry);
  output.result("{:>10} {:6.1f} days  {}{}{}", size, days_unused(entry.listed), what,
                state.empty() ? "" : "  -- ", state);
  if (entry.facts)
    output.detail("    {}, driver {}", entry.facts->key.device, entry.facts->key.driver);
}

void sum_up(Output& output, const std::vector<Entry>& all, std::string_view words) {
  double bytes = 0;
  for (const Entry& entry : all) bytes += static_cast<double>(entry.listed.bytes);
  output.result("{} {}, {}", all.size(), words, readable_bytes(bytes));
}

int list(const CacheOptions& options) {
  Output output(options.common.output);
  const std::vector<Entry> all = entries(store(), options);
  nlohmann::ordered_json objects = nlohmann::ordered_json::array();
  for (const Entry& entry : all) {
    print(output, entry);
    objects.push_back(json_of(entry));
  }
  sum_up(output, all, "programs");
  output.object({{"programs", objects}});
  return 0;
}

int verify(const CacheOptions& options) {
  Output output(options.common.output);
  const std::vector<Entry> all = entries(store(), options);
  nlohmann::ordered_json bad = nlohmann::ordered_json::array();
  for (const Entry& entry : all) {
    if (state_of(entry).empty()) continue;
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
  DiskProgramStore folder = store();
  const std::vector<Entry> all = entries(folder, options);
  for (const Entry& entry : all) folder.remove(entry.listed.name);
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
