// Options shared by several commands.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clora/runtime/context.hpp"
#include "tools/command_line/cli_declarations.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

struct CommonOptions {
  std::string model;
  std::string device;
  std::string split;  // "layers": the model over the devices that `device` lists; empty: one device
  std::vector<std::int64_t> device_shares;  // with `split`; empty: equal ones
  std::string precision = "auto";
  std::size_t memory_bytes = 0;             // as ContextConfig::memory_limit_bytes
  std::optional<double> weight_copy_share;  // as in ContextConfig; not set: its default
  std::uint64_t seed = 0;
  std::string profile;  // grouping of --profile: ops or shapes; empty without --profile
  std::string trace_file;
  std::shared_ptr<Trace> trace;  // created when --trace is parsed, to cover start-up
  OutputOptions output;
};

// --json, --quiet, --verbose and --config. The configuration file is read before parsing
// (command_line.cpp).
void add_output_options(CLI::App& command, CommonOptions& options);
// --device, default $CLORA_DEVICE.
void add_device_option(CLI::App& command, CommonOptions& options);
// --model, required.
void add_model_option(CLI::App& command, CommonOptions& options);
// --adapter: a path of any format (model/adapter_files/adapter_files.hpp). `what` begins the help.
CLI::Option* add_adapter_option(CLI::App& command, std::string& adapter,
                                const std::string& what = "Adapter to use");
// --precision.
void add_precision_option(CLI::App& command, CommonOptions& options);
// --memory, for commands that plan it.
void add_memory_option(CLI::App& command, CommonOptions& options);
// All of the above with --precision, --seed, --profile and --trace, for commands that run a model.
void add_run_options(CLI::App& command, CommonOptions& options);

// The context that the options describe. Errors: no_device; unsupported if the device lacks the
// precision (the message lists the supported ones).
ContextConfig context_config(const CommonOptions& options);
void require_precision(const CommonOptions& options, const Device& device);

// Reads standard input to its end. Errors: io.
std::string read_standard_input();

}  // namespace clora
