// clora train --find-lr: searches a learning rate instead of training (rate_search.hpp).
#pragma once

#include <string>

#include "clora/model/training/rate_search.hpp"
#include "tools/command_line/cli_declarations.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

struct FindRateOptions {
  std::string picture;  // the chart's file; empty: train

  bool searches() const { return !picture.empty(); }
};

// Adds --find-lr, which makes --adapter-out optional. REQUIRES: --adapter-out and --resume exist.
void add_find_rate_option(CLI::App& command, FindRateOptions& options);

// Searches with the run's adapter and data, reports the rates and the suggestion, and writes the
// chart. Returns the exit code: 1 if no rate is suggested. `title` is the chart's.
// Errors: those of search_rate(); io.
int find_rate(const FindRateOptions& options, LanguageModel& model, Adapter& adapter,
              const Records& train, const TrainingRunConfig& config, const std::string& title,
              Output& output);

}  // namespace clora
