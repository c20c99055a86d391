// clora compare: shows training runs side by side.
#include <CLI/CLI.hpp>
#include <memory>

#include "clora/runtime/files/file.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/clora/report/run_comparison.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora compare run-1 run-2
  clora compare --out rates.html lr-1e-4 lr-3e-4 lr-1e-3
  clora compare --json run-1 run-2
A run is the folder that 'clora train' writes, with log.jsonl and run.toml. Runs that are under way,
were cut or resumed, or have other numbers of steps are compared by what their logs have.
The table has for each run: loss, the mean of the last tenth of the steps; held out, the loss of the
last evaluation; lowest, that of all evaluations and its step; the time; the median of the tokens/s;
and the peak of device memory. Losses are in nats per token. Below it are the settings that differ.
The page of --out has the curves of all runs on the same axes.)";

struct Options {
  CommonOptions common;
  std::vector<std::string> runs;
  std::string out = "compare.html";
};

std::vector<LoggedRun> read_runs(const Options& options, Output& output) {
  std::vector<LoggedRun> runs;
  for (const std::string& folder : options.runs) {
    runs.push_back(read_run(folder));
    const LoggedRun& run = runs.back();
    if (run.lines_left_out > 0) {
      output.warning("'{}': {} lines of {} are not events and were ignored", run.name,
                     run.lines_left_out, kLogFile);
    }
    if (run.settings.empty()) output.warning("'{}' has no {}", run.name, kConfigurationFile);
  }
  return runs;
}

void show(const TextTable& table, Output& output) {
  for (const std::string& line : lines_of(table)) output.result("{}", line);
}

int compare(const Options& options) {
  Output output(options.common.output);
  const std::vector<LoggedRun> runs = read_runs(options, output);
  write_file_atomically(options.out, compare_page(runs));
  show(results_table(runs), output);
  const TextTable settings = settings_table(runs);
  output.result("");
  if (settings.rows.empty()) {
    output.result("the settings are the same");
  } else {
    show(settings, output);
  }
  for (const auto& object : json_of(runs)) output.object(object);
  output.info("curves in {}", options.out);
  return 0;
}

}  // namespace

void add_compare_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("compare", "Compare training runs");
  const auto options = std::make_shared<Options>();
  command->add_option("RUN", options->runs, "Folders of runs")->required();
  command->add_option("--out", options->out, "Page to write, with the curves of all runs")
      ->type_name("FILE")
      ->capture_default_str();
  add_output_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return compare(*options); }; });
}

}  // namespace clora
