// clora adapters resize, prune and quantise: a smaller adapter from one.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "clora/lora/compression.hpp"
#include "runtime/fail.hpp"
#include "tools/clora/adapters/adapters_commands.hpp"
#include "tools/clora/adapters/validation_losses.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kResizeFooter = R"(Examples:
  clora adapters resize sql --rank 4 --out sql-4
  clora adapters resize sql --energy 0.99 --out sql-small
Each module becomes the best approximation of its product of that rank (SVD, from the QR of A and
B). Energy is the squared Frobenius norm; --energy chooses the least rank of each module that keeps
that share, at most --rank.)";

constexpr const char* kPruneFooter = R"(Examples:
  clora adapters prune sql --module-share 0.001 --out sql-pruned
  clora adapters prune sql --rank-share 0.01 --out sql-pruned
Shares are of energy, the squared Frobenius norm of the products.)";

constexpr const char* kQuantiseFooter = R"(Example:
  clora adapters quantise sql --dtype bf16 --out sql-bf16
PEFT reads f32, f16 and bf16 only; quantised types such as q8_0 are not written.)";

struct Options {
  ResultOptions result;
  std::string adapter;
  std::optional<std::int64_t> rank;
  std::optional<double> energy;
  PruneConfig prune;
};

// Returns the result of a command from the adapter.
using Compress = AdapterMatrices (*)(const Options&, const AdapterMatrices&, Output&);

int run_compression(const Options& options, Compress compress, bool energy) {
  Output output(options.result.common.output);
  require_free(options.result, std::span(&options.adapter, 1));
  const AdapterMatrices adapter = read_adapter_matrices(options.adapter);
  ValidationLosses losses(options.result, output);
  losses.add("base model");
  losses.add(options.adapter, options.adapter);
  AdapterMatrices result = compress(options, adapter, output);
  write_result(result, options.result);
  const WeightedAdapter wanted[] = {{&adapter, 1}};
  const AdapterErrors errors = errors_of(result, wanted);
  output.result("wrote {}", options.result.out);
  report_errors(output, errors, {.wanted = "the adapter", .energy = energy});
  losses.add(options.result.out, options.result.out);
  nlohmann::ordered_json object = json_of(options.result, errors);
  losses.add_to(object);
  output.object(object);
  return 0;
}

AdapterMatrices resized(const Options& options, const AdapterMatrices& adapter, Output&) {
  if (!options.rank && !options.energy) throw UsageError("resize requires --rank or --energy");
  return resize_adapter(adapter, {.rank = options.rank.value_or(Adapter::kMaxRank),
                                  .energy = options.energy.value_or(1)});
}

AdapterMatrices pruned(const Options& options, const AdapterMatrices& adapter, Output& output) {
  if (options.prune.module_share == 0 && options.prune.rank_share == 0) {
    throw UsageError("prune requires --module-share or --rank-share");
  }
  AdapterMatrices result = prune_adapter(adapter, options.prune);
  std::int64_t ranks = 0, kept = 0;
  for (const ModuleMatrices& module : adapter.modules) {
    ranks += module.rank;
    const ModuleMatrices* const left = result.find(module.site.path);
    kept += left == nullptr ? 0 : left->rank;
    if (left == nullptr) output.info("dropped {}", module.site.path);
  }
  output.result("dropped {} of {} modules, {} of {} ranks in all",
                adapter.modules.size() - result.modules.size(), adapter.modules.size(),
                ranks - kept, ranks);
  return result;
}

AdapterMatrices unchanged(const Options&, const AdapterMatrices& adapter, Output&) {
  return adapter;
}

struct Words {
  const char* name;
  const char* description;
  const char* footer;
};

CLI::App& add_command(CLI::App& group, Action& action, const Words& words,
                      const std::shared_ptr<Options>& options, Compress compress, bool energy) {
  CLI::App* command = group.add_subcommand(words.name, words.description);
  add_adapter_argument(*command, options->adapter);
  add_result_options(*command, options->result);
  command->footer(words.footer);
  command->callback([options, compress, energy, &action] {
    action = [options, compress, energy] { return run_compression(*options, compress, energy); };
  });
  return *command;
}

}  // namespace

void add_adapters_resize_command(CLI::App& group, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App& command = add_command(
      group, action, {"resize", "Lower an adapter's rank", kResizeFooter}, options, resized, true);
  command.add_option("--rank", options->rank, "Rank of every module at most")
      ->transform(Integer(1, Adapter::kMaxRank));
  command.add_option("--energy", options->energy, "Share of each module's energy to keep")
      ->transform(NumberAbove(0, 1));
}

void add_adapters_prune_command(CLI::App& group, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App& command = add_command(
      group, action, {"prune", "Drop an adapter's small modules or ranks", kPruneFooter}, options,
      pruned, true);
  command
      .add_option("--module-share", options->prune.module_share,
                  "Drop modules with less than this share of the adapter's energy")
      ->transform(Number(0, 0.999));
  command
      .add_option("--rank-share", options->prune.rank_share,
                  "Drop singular values with less than this share of their module's energy")
      ->transform(Number(0, 0.999));
}

void add_adapters_quantise_command(CLI::App& group, Action& action) {
  const auto options = std::make_shared<Options>();
  CLI::App& command = add_command(
      group, action, {"quantise", "Store an adapter in a smaller type", kQuantiseFooter}, options,
      unchanged, false);
  command.get_option("--dtype")->required();
}

}  // namespace clora
