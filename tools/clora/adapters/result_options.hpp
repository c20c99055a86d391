// The options shared by the subcommands of `clora adapters` that write an adapter, and what they do
// with it: check the folder before the work, write it, and report its errors. Not thread-safe.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "clora/lora/adapter_errors.hpp"
#include "tools/clora/commands/data_options.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

struct ResultOptions {
  CommonOptions common;  // the model and the device are those of --data
  DataOptions data;
  std::string out;
  std::string type = "f32";  // of the stored values
  bool overwrite = false;
};

// --out, --overwrite, --dtype, --model with --data and its options, --device, and the output
// options. --model is optional and required by --data.
void add_result_options(CLI::App& command, ResultOptions& options);

// The positional argument of a subcommand with one adapter.
void add_adapter_argument(CLI::App& command, std::string& adapter);

DType type_of(const ResultOptions& options);

// Throws Error(io) if --out cannot be written: a non-empty folder without --overwrite, a file, or
// an input.
void require_free(const ResultOptions& options, std::span<const std::string> inputs);

// Writes the adapter to --out: files that exist are replaced at the end. Rounds its values first.
void write_result(AdapterMatrices& adapter, const ResultOptions& options);

// What the errors are relative to, and whether the share of the energy that was kept is reported.
struct ErrorWords {
  std::string wanted;  // "the weighted sum"
  bool energy = false;
};

// Prints the ranks, the whole and the largest error of an adapter; with --verbose, each module.
void report_errors(Output& output, const AdapterErrors& errors, const ErrorWords& words);

// {"adapter": ..., "relative_error": ..., "worst": {...}, "modules": [...]}
nlohmann::ordered_json json_of(const ResultOptions& options, const AdapterErrors& errors);

}  // namespace clora
