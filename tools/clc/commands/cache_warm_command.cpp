// clc cache warm: builds the programs of a model before they are needed.
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "clora/runtime/error.hpp"
#include "runtime/elapsed.hpp"
#include "tools/clc/commands/commands.hpp"
#include "tools/clc/commands/common_options.hpp"
#include "tools/clc/compile/cache_warming.hpp"
#include "tools/command_line/adapter_options.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clc cache warm --model MODEL.gguf
  clc cache warm --model MODEL --for train --rank 16 --batch-size 8 --max-seq-length 1024
Loads the model and runs what 'clora train' and 'clora generate' run first, so it needs their memory
and some of their time. Programs depend on the model's shapes, the options below, the device and the
driver: give those of the runs to come. Step sizes go from a full batch down by halves. A second
call builds nothing.
Exit codes: 0 success, 1 the model cannot run or programs cannot be cached, 2 usage error.)";

struct WarmOptions {
  ClcOptions common;
  WarmingConfig warming;
  std::string precision = "auto", purpose = "all";
};

ContextConfig warm_context(const WarmOptions& options, Output& output) {
  ContextConfig config = config_from_environment();
  if (!options.common.device.empty()) config.device = options.common.device;
  config.precision = options.precision == "f32" ? Precision::f32 : Precision::automatic;
  config.hooks.log = [&output](LogLevel level, std::string_view message) {
    if (level >= LogLevel::warning) output.warning("{}", message);
  };
  return config;
}

int warm(const WarmOptions& options) {
  Output output(options.common.output);
  WarmingConfig config = options.warming;
  config.trains = options.purpose != "generate";
  config.generates = options.purpose != "train";
  config.progress = [&output](const std::string& what) { output.detail("{}", what); };
  const auto begin = std::chrono::steady_clock::now();
  const WarmingResult result = warm_cache(warm_context(options, output), config);
  const double seconds = seconds_since(begin);
  output.result("{} programs built, {} already cached; {:.1f} s, of which {:.1f} s compiling",
                result.built, result.found, seconds, result.build_seconds);
  if (result.not_cached > 0) output.warning("{} programs could not be cached", result.not_cached);
  output.object({{"built", result.built},
                 {"found", result.found},
                 {"not_kept", result.not_cached},
                 {"seconds", seconds},
                 {"build_seconds", result.build_seconds}});
  return result.not_cached == 0 ? 0 : 1;
}

void add_adapter_options(CLI::App& command, WarmingConfig& warming) {
  const std::string group = "Training";
  add_rank_option(command, warming.adapter, group);
  add_dropout_option(command, warming.adapter, group);
  add_target_modules_option(command, warming.target_modules, group);
  command
      .add_option("--max-seq-length,--sequence-length", warming.sequence_length,
                  "Maximum tokens per record")
      ->transform(Integer(2, std::int64_t{1} << 20))
      ->type_name("TOKENS")
      ->capture_default_str()
      ->group(group);
  command.add_option("--batch-size", warming.batch_size, "Records per step")
      ->transform(Integer(1, kMaxBatch))
      ->type_name("RECORDS")
      ->capture_default_str()
      ->group(group);
}

}  // namespace

void add_cache_warm_command(CLI::App& cache, Action& action) {
  CLI::App* command = cache.add_subcommand(
      "warm", "Build the programs that a model's first step and first token need");
  const auto options = std::make_shared<WarmOptions>();
  command
      ->add_option("--model", options->warming.model,
                   "A .gguf file (any part of a split one), or a folder with config.json and "
                   "model.safetensors")
      ->type_name("PATH")
      ->required();
  command->add_option("--for", options->purpose, "Runs to build the programs for")
      ->check(CLI::IsMember({"all", "train", "generate"}))
      ->capture_default_str();
  add_device_option(*command, options->common);
  command->add_option("--precision", options->precision, "As in 'clora train'")
      ->check(CLI::IsMember({"auto", "f32"}))
      ->capture_default_str();
  add_adapter_options(*command, options->warming);
  add_output_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return warm(*options); }; });
}

}  // namespace clora
