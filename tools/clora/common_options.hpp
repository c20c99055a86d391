// Options that several commands share, with one wording.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/context.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

struct CommonOptions {
  std::string model;
  std::string device;
  std::string precision = "auto";
  std::uint64_t seed = 0;
  std::string profile;  // what --profile groups by: ops or shapes; empty without it
  std::string trace_file;
  std::shared_ptr<Trace> trace;  // made as soon as --trace is read, so that it sees the beginning
  OutputOptions output;
};

// --json, --quiet, --verbose and --config. The file is read before parsing (command_line.cpp).
void add_output_options(CLI::App& command, CommonOptions& options);
// --device, from CLORA_DEVICE where it is not given.
void add_device_option(CLI::App& command, CommonOptions& options);
// --model, required.
void add_model_option(CLI::App& command, CommonOptions& options);
// All of the above with --precision, --seed, --profile and --trace: for commands that run a model.
void add_run_options(CLI::App& command, CommonOptions& options);

// The context that the options ask for. Errors: no_device; unsupported for a precision that the
// device cannot do, with those it can.
ContextConfig context_config(const CommonOptions& options);
void require_precision(const CommonOptions& options, const Device& device);

// The whole standard input. Errors: io.
std::string read_standard_input();

}  // namespace clora
