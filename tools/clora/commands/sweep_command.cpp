// clora sweep: runs trainings with varied settings and compares them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/sweep/sweep_runs.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/shared_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora sweep sweep.toml
  clora sweep --json sweep.toml
The file has options of 'clora train' for every run, among them adapter-out, the folder of the sweep,
and settings that vary:
  [grid]                  a run for each combination
  lr = [1e-4, 3e-4, 1e-3]
  rank = [8, 16]
  [wide]                  each further section is a run of that name
  rank = 64
devices = ["gpu:0", "gpu:1"] runs one at a time on each. Each run is a process of its own; one that
fails does not end the sweep. Started again, the sweep skips runs that have finished, and resumes
one that was cut from its last checkpoint (see save-every of 'clora train'). At the end, a table has
the runs by rising held-out loss (of the adapter that was saved), and the folder results.json.)";

struct Options {
  OutputOptions output;
  std::string file;
};

using Json = nlohmann::ordered_json;

// The command line is the sweep's own program.
std::filesystem::path own_program() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) fail(ErrorCode::io, "sweep: the program's own file cannot be found");
  return program;
}

std::string text_of_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw UsageError(fmt::format("'{}' does not exist or cannot be read", path));
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string loss_text(const std::optional<double>& loss) {
  return loss ? fmt::format("{:.4f}", *loss) : "-";
}

std::string state_text(const RunResult& result, int code) {
  if (result.finished) return "done";
  if (result.stopped) return "stopped";
  return code < 0 ? "not run" : "failed";
}

// The indices of the runs, the best first; equal ones in the order of the file.
std::vector<std::size_t> order_of(const std::vector<RunResult>& results) {
  std::vector<std::size_t> order(results.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return is_better(results[a], results[b]); });
  return order;
}

void report(const SweepPlan& plan, const SweepRunState& state, Output& output) {
  const std::string run =
      fmt::format("{}/{} {}", state.run + 1, plan.runs.size(), plan.runs[state.run].name);
  const std::string on = state.device.empty() ? "" : fmt::format(" on {}", state.device);
  if (state.kind == SweepRunState::Kind::skipped) {
    output.info("{}: finished before", run);
  } else if (state.kind == SweepRunState::Kind::started) {
    output.info("{}: {}{}", run, state.resumes ? "resumes" : "begins", on);
  } else if (state.exit_code != 0) {
    output.warning("{}: exit code {}: {}", run, state.exit_code, state.last_line);
  } else {
    const RunResult result = read_run_result(plan.folder / plan.runs[state.run].name);
    output.info("{}: held-out loss {}, training loss {}, {} steps in {}", run,
                loss_text(result.valid_loss), loss_text(result.train_loss), result.steps,
                clock_time(result.seconds));
  }
}

Json json_of(const SweepRun& run, const RunResult& result, int code) {
  Json object{{"run", run.name}, {"state", state_text(result, code)}};
  for (const SweepSetting& setting : run.settings) object["settings"][setting.name] = setting.value;
  object.update(json_of(result));
  return object;
}

std::string scores_text(const RunResult& result) {
  std::string text;
  for (const auto& [name, score] : result.scores) text += fmt::format("  {} {:.4g}", name, score);
  return text;
}

void show(const SweepPlan& plan, const std::vector<RunResult>& results,
          const std::vector<int>& codes, Output& output) {
  std::size_t width = 3;
  for (const SweepRun& run : plan.runs) width = std::max(width, run.name.size());
  output.result("{:<{}}  {:>13}  {:>13}  {:>7}  {:>8}  state", "run", width, "held-out loss",
                "training loss", "steps", "time");
  Json list = Json::array();
  for (const std::size_t i : order_of(results)) {
    const RunResult& result = results[i];
    output.result("{:<{}}  {:>13}  {:>13}  {:>7}  {:>8}  {}{}", plan.runs[i].name, width,
                  loss_text(result.valid_loss), loss_text(result.train_loss), result.steps,
                  clock_time(result.seconds), state_text(result, codes[i]), scores_text(result));
    list.push_back(json_of(plan.runs[i], result, codes[i]));
  }
  const Json object{{"runs", list}};
  write_file_atomically(plan.folder / "results.json", json_text(object, 2) + "\n");
  output.object(object);
}

int sweep(const Options& options, const CLI::App& train) {
  Output output(options.output);
  const SweepPlan plan = sweep_plan_of(text_of_file(options.file), options.file, train);
  prepare_sweep(plan);
  const Interrupt interrupt(
      "\nclora: stopping the runs, which save first; press Ctrl-C again to stop immediately\n");
  const std::vector<int> codes = run_sweep(
      plan, own_program(), [&](const SweepRunState& state) { report(plan, state, output); },
      [&] { return interrupt.requested(); });
  std::vector<RunResult> results;
  for (const SweepRun& run : plan.runs) results.push_back(read_run_result(plan.folder / run.name));
  show(plan, results, codes, output);
  return std::ranges::all_of(results, &RunResult::finished) ? 0 : 1;
}

}  // namespace

void add_sweep_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("sweep", "Train with varied settings and compare the runs");
  const auto options = std::make_shared<Options>();
  command->add_option("FILE", options->file, "TOML file of the sweep")->required();
  add_output_flags(*command, options->output);
  command->footer(kFooter);
  const CLI::App* train = program.get_subcommand("train");
  command->callback(
      [options, train, &action] { action = [options, train] { return sweep(*options, *train); }; });
}

}  // namespace clora
