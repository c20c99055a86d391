// The options of clc tune.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/clc/call/call_options.hpp"
#include "tools/clc/call/comparison.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

struct TuneOptions {
  CallOptions call;
  std::vector<std::string> compared;  // from --compare: "y=ref.npy"
  std::vector<std::string> checked;   // from --check; empty: all arrays
  Tolerance tolerance;
  std::string search = "exhaustive", caches = "warm";
  std::size_t most = 0;  // limit of candidates; 0: all
  std::uint64_t seed = 1;
  double seconds = 0.2;                 // device time per candidate
  std::filesystem::path record, table;  // empty: in the cache folder
  bool fresh = false, dry_run = false;
  std::string costs;  // a model, or "all": its costs are tuned instead of a kernel; empty: none
};

// Adds all options and the footer of the help.
void add_tune_options(CLI::App& command, TuneOptions& options);

}  // namespace clora
