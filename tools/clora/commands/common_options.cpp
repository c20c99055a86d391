#include "tools/clora/commands/common_options.hpp"
#include "tools/command_line/byte_size.hpp"
#include "tools/command_line/local_path.hpp"
#include "tools/command_line/number_options.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>

#include "runtime/fail.hpp"
#include "tools/command_line/build_notice.hpp"
#include "tools/command_line/setting_names.hpp"
#include "tools/command_line/shared_options.hpp"

namespace clora {

void add_output_options(CLI::App& command, CommonOptions& options) {
  add_output_flags(command, options.output);
  command
      .add_option("--config",
                  "TOML file with any of these options (the command line takes precedence)")
      ->type_name("FILE")
      ->group("Output");
}

void add_device_option(CLI::App& command, CommonOptions& options) {
  add_device_selector(command, options.device, "Model and device");
}

void add_model_option(CLI::App& command, CommonOptions& options) {
  command
      .add_option("--model", options.model,
                  "A .gguf file (any part of a split one), or a folder with config.json, "
                  "model.safetensors and tokenizer.json")
      ->transform(LocalPath(HubKind::model))
      ->type_name("PATH")
      ->required()
      ->group("Model and device");
}

CLI::Option* add_adapter_option(CLI::App& command, std::string& adapter, const std::string& what) {
  return command
      .add_option("--adapter", adapter, what + ": a folder of PEFT or of mlx-lm, or a GGUF file")
      ->transform(LocalPath(HubKind::model))
      ->type_name("PATH");
}

void add_memory_option(CLI::App& command, CommonOptions& options) {
  command
      .add_option("--memory", options.memory_bytes,
                  "Device memory that may be used, such as 8GiB (default: all of it)")
      ->transform(ByteSize())
      ->type_name("SIZE")
      ->group("Model and device");
}

void add_precision_option(CLI::App& command, CommonOptions& options) {
  command
      .add_option("--precision", options.precision,
                  "Matrix products in f32, or with operands rounded to bf16 where the device has a "
                  "matrix unit for it (auto)")
      ->check(CLI::IsMember({"auto", "f32", "bf16"}))
      ->capture_default_str()
      ->group("Model and device");
}

void add_run_options(CLI::App& command, CommonOptions& options) {
  add_model_option(command, options);
  add_device_option(command, options);
  add_precision_option(command, options);
  command.add_option("--seed", options.seed, "Random seed")
      ->transform(Integer(0, kMaxSeed))
      ->capture_default_str()
      ->group("Model and device");
  command
      .add_flag(
          "--profile{ops}", options.profile,
          "Print device times by operation at the end; --profile=shapes lists shapes separately")
      ->check(CLI::IsMember({"ops", "shapes"}))
      ->group("Output");
  command
      .add_option_function<std::string>(
          "--trace",
          [&options](const std::string& file) {
            options.trace_file = file;
            options.trace = std::make_shared<Trace>();
          },
          "Write a trace of host and device activity to FILE, for ui.perfetto.dev")
      ->type_name("FILE")
      ->group("Output");
  add_output_options(command, options);
}

ContextConfig context_config(const CommonOptions& options) {
  ContextConfig config = config_from_environment();
  if (!options.device.empty()) config.device = options.device;
  config.precision = options.precision == "f32" ? Precision::f32 : Precision::automatic;
  if (options.memory_bytes != 0) config.memory_limit_bytes = options.memory_bytes;
  if (options.weight_copy_share) config.weight_copy_share = *options.weight_copy_share;
  config.profile = !options.profile.empty() || options.trace != nullptr;
  config.trace = options.trace;
  config.hooks.log = [output = Output(options.output)](LogLevel level,
                                                       std::string_view message) mutable {
    if (level >= LogLevel::warning) output.warning("{}", with_option_names(message));
    if (level == LogLevel::info) output.remark("{}", message);
  };
  config.hooks.build = build_notice(options.output);
  return config;
}

void require_precision(const CommonOptions& options, const Device& device) {
  if (options.precision != "bf16" || device.matrix_unit != MatrixUnit::none) return;
  fail(ErrorCode::unsupported, "precision: bf16 is not available on '{}'; use f32", device.name);
}

std::string read_standard_input() {
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  if (std::cin.bad()) fail(ErrorCode::io, "stdin: reading failed");
  return text;
}

}  // namespace clora
