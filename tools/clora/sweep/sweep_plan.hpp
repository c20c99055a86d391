// The runs of a sweep, from its file. The file is a configuration of `clora train` with settings
// that vary:
//
//   model = "model.gguf"         options of every run; adapter-out is the folder of the sweep
//   adapter-out = "sweep"
//   devices = ["gpu:0", "gpu:1"] optional: one run at a time on each
//   [grid]                       a run for each combination of these values
//   lr = [1e-4, 1e-3]
//   rank = [8, 16]
//   [wide]                       each further section is a run of that name
//   rank = 64
//
// Pure functions; thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tools/command_line/cli_declarations.hpp"

namespace clora {

struct SweepSetting {
  std::string name, value;  // of an option; a list is "[a, b]"
};

struct SweepRun {
  std::string name;                    // of its folder: "lr=0.0001,rank=8"
  std::vector<SweepSetting> settings;  // those that vary
  std::string configuration;           // for clora train --config, without adapter-out
};

struct SweepPlan {
  std::filesystem::path folder;
  std::vector<std::string> devices;  // {""} if the file names none
  std::vector<SweepRun> runs;
};

// `train` is the command whose options the file sets. Errors: UsageError (config_file.hpp), which
// names the file, for an unknown option, one that belongs to a single call (resume, overwrite,
// find-lr, ...), no adapter-out, no runs or more than kMaxSweepRuns, or two runs of one name.
SweepPlan sweep_plan_of(std::string_view text, const std::string& source, const CLI::App& train);

inline constexpr std::size_t kMaxSweepRuns = 1000;

}  // namespace clora
