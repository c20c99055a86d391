// What `clora fuse` and `clora quantize` write, and where.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "clora/runtime/memory/dtype.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

struct ExportOptions {
  CommonOptions common;
  std::string who = "fuse";  // the command, for messages
  std::string adapter;       // empty: the model alone
  std::string out;
  std::string to;    // "gguf" or "safetensors"; empty: by the name of --out
  std::string type;  // the name of a type, or "keep"; empty: the default of the format
  std::uintmax_t max_shard_bytes = 0;
  std::string prompts;  // of the verification; empty: fixed ones
  bool overwrite = false;
  bool no_verify = false;
  bool no_modelfile = false;

  bool is_gguf() const;
  // nullopt: of each tensor its own. Errors: invalid_argument, if the format does not have the
  // type, which names the option.
  std::optional<DType> stored_type() const;
};

// --out, --overwrite, --verify-prompts, --no-verify, --no-modelfile.
void add_export_options(CLI::App& command, ExportOptions& options);

// Whether `path` exists and is not an empty folder, and is not to be replaced. Errors: io, with
// what to do, if it is an input or may not be replaced.
void require_free_out(const ExportOptions& options);

}  // namespace clora
