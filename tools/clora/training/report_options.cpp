#include <CLI/CLI.hpp>

#include "tools/clora/training/report_options.hpp"

#include "runtime/fail.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kGroup = "Report";
// A line of the log holds all samples of a step, each at most four times kMaxSampleBytes.
constexpr std::int64_t kMaxSamples = 16;

}  // namespace

void add_report_options(CLI::App& command, ReportOptions& options) {
  command
      .add_flag("--report", options.page,
                "Write report.html next to the adapter, at each evaluation and checkpoint: curves, "
                "adapter norms, replies, settings and data, in one file without links")
      ->group(kGroup);
  command
      .add_option("--samples", options.samples,
                  "With --report: held-out prompts whose replies by the base model and by the "
                  "adapter are shown at each evaluation; 0: none (default: 3)")
      ->transform(Integer(0, kMaxSamples))
      ->type_name("PROMPTS")
      ->group(kGroup);
  command
      .add_option(
          "--tensorboard", options.event_folder,
          "Write event files of TensorBoard (default folder: tensorboard next to the adapter)")
      ->expected(0, 1)
      ->type_name("[DIR]")
      ->group(kGroup);
}

void note_given(const CLI::App& command, ReportOptions& options) {
  options.event_files = command.count("--tensorboard") > 0;
}

void check_report_options(const ReportOptions& options, bool has_held_out) {
  if (options.samples.value_or(0) == 0) return;
  if (!options.page) throw UsageError("--samples is shown on the page of --report; add --report");
  if (!has_held_out) {
    fail(ErrorCode::not_found,
         "train: --samples requires held-out records, a valid.jsonl next to train.jsonl");
  }
}

}  // namespace clora
