// The options of a training's report: the page, its samples, and event files of TensorBoard.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/command_line/cli_declarations.hpp"

namespace clora {

constexpr std::int64_t kDefaultSamples = 3;

struct ReportOptions {
  bool page = false;                         // report.html
  std::optional<std::int64_t> samples = {};  // prompts on the page; nullopt: kDefaultSamples
  bool event_files = false;
  std::string event_folder;  // empty: "tensorboard" in the folder of the run

  // Whether the adapter's norms are computed.
  bool wants_norms() const { return page || event_files; }
  // Prompts whose replies are shown, at most.
  std::int64_t shown_samples() const { return page ? samples.value_or(kDefaultSamples) : 0; }
};
constexpr const char* kReportPage = "report.html";
constexpr const char* kEventFolder = "tensorboard";

void add_report_options(CLI::App& command, ReportOptions& options);
// Notes whether --tensorboard was given, which may have no value. Call after parsing.
void note_given(const CLI::App& command, ReportOptions& options);

// Errors: UsageError for --samples without --report; not_found for --samples without held-out
// records.
void check_report_options(const ReportOptions& options, bool has_held_out);

}  // namespace clora
