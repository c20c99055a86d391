#include <CLI/CLI.hpp>

#include "tools/clora/training/evaluation_options.hpp"

#include "runtime/fail.hpp"
#include "tools/command_line/local_path.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kGroup = "Evaluation";

void add_early_stopping_options(CLI::App& command, EvaluationOptions& options) {
  command
      .add_option("--early-stopping", options.patience,
                  "End after so many evaluations in a row without a better held-out loss, and keep "
                  "the best adapter; 0: off")
      ->transform(Integer(0, kMaxCount))
      ->type_name("PATIENCE")
      ->capture_default_str()
      ->group(kGroup);
  command
      .add_option("--min-improvement", options.min_improvement,
                  "With --early-stopping: by how much a held-out loss must be lower to be better")
      ->transform(Number(0, 1e6))
      ->type_name("NATS")
      ->capture_default_str()
      ->group(kGroup);
}

void add_reply_options(CLI::App& command, EvaluationOptions& options) {
  command
      .add_flag("--eval-exact-match", options.exact_match,
                "Also generate the completions of the held-out records and compare them")
      ->group(kGroup);
  command
      .add_option("--eval-replies", options.replies,
                  "Held-out records to generate replies for, from the first; 0: all")
      ->transform(Integer(0, kMaxCount))
      ->type_name("N")
      ->capture_default_str()
      ->group(kGroup);
}

void add_command_options(CLI::App& command, EvaluationOptions& options) {
  command
      .add_option("--eval-command", options.command,
                  "Shell command that scores generated replies: it reads JSON lines with prompt, "
                  "reference and reply, and prints a JSON object of numbers")
      ->type_name("CMD")
      ->group(kGroup);
  command
      .add_option("--eval-command-timeout", options.command_seconds,
                  "Time after which the command is ended")
      ->transform(NumberAbove(0, kMaxSeconds))
      ->type_name("SECONDS")
      ->capture_default_str()
      ->group(kGroup);
  command
      .add_flag("--eval-command-required", options.command_required,
                "End the run if the command fails, instead of a warning")
      ->group(kGroup);
}

}  // namespace

void EvaluationOptions::apply_to(TrainingRunConfig& config) const {
  require(patience > 0 || min_improvement == 0,
          "train: --min-improvement requires --early-stopping");
  config.patience = patience;
  config.min_improvement = min_improvement;
}

void add_evaluation_options(CLI::App& command, EvaluationOptions& options) {
  add_early_stopping_options(command, options);
  add_reply_options(command, options);
  command
      .add_option("--eval-choices", options.choices,
                  "File of multiple-choice records, to score by the likelihood of their choices")
      ->check(LocalPath(HubKind::data_set))
      ->type_name("FILE")
      ->group(kGroup);
  add_command_options(command, options);
}

}  // namespace clora
