// clc matrix: which kernel files build on which devices.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/clc/commands/commands.hpp"
#include "tools/clc/compile/build_tasks.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clc matrix                            every built-in kernel file on every device here
  clc matrix my/*.cl --device gpu
Each row is a file on a device: how many of its option sets built, the slowest in seconds, and why
others failed. A file whose option sets are meant for other devices is listed as such.)";

constexpr std::array kEnds{DeviceBuild::End::built, DeviceBuild::End::refused,
                           DeviceBuild::End::crashed, DeviceBuild::End::out_of_time};

// The result of one file on one device.
struct Row {
  std::map<DeviceBuild::End, int> counts;
  double slowest_seconds = 0;
  std::string words;  // error of the first failed build
};

std::string counts_text(const Row& row) {
  std::string text;
  for (const DeviceBuild::End end : kEnds) {
    const auto count = row.counts.find(end);
    if (count == row.counts.end()) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count->second, name_of(end));
  }
  return text;
}

std::string first_words(const DeviceBuild& build) {
  for (const Diagnostic& each : build.diagnostics) {
    if (each.severity != "error") continue;
    return fmt::format("{}:{}:{}: {}", each.file, each.line, each.column, each.text);
  }
  return build.words.substr(0, build.words.find('\n'));
}

using Rows = std::map<std::pair<std::string, std::string>, Row>;  // key: file, device

void count(Rows& rows, const BuildTask& task, const DeviceBuild& build) {
  Row& row = rows[{task.path, task.device.name}];
  ++row.counts[build.end];
  row.slowest_seconds = std::max(row.slowest_seconds, build.seconds);
  if (build.end != DeviceBuild::End::built && row.words.empty()) {
    row.words = fmt::format("[{}] {}", task.options, first_words(build));
  }
}

void print(Output& output, const Rows& rows) {
  for (const auto& [place, row] : rows) {
    output.result("{:36} {:24} {:20} {:6.2f} s  {}", place.first, place.second.substr(0, 24),
                  counts_text(row), row.slowest_seconds, row.words);
  }
}

void list_left_out(Output& output, const BuildOptions& options, const Rows& rows) {
  for (const std::string& path : options.files) {
    const bool built =
        std::ranges::any_of(rows, [&](const auto& row) { return row.first.first == path; });
    if (!built) output.result("{:36} not meant for any device here", path);
  }
}

int matrix(BuildOptions options) {
  Output output(options.common.output);
  if (options.files.empty()) options.files = built_in_kernel_files();
  Rows rows;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  bool well = true;
  build_all(build_tasks(options), options, [&](const BuildTask& task, const DeviceBuild& build) {
    output.detail("{} {} on {}: {} in {:.2f} s", task.path, task.options, task.device.name,
                  name_of(build.end), build.seconds);
    count(rows, task, build);
    all.push_back(json_of(task, build));
    well = well && build.end == DeviceBuild::End::built;
  });
  print(output, rows);
  list_left_out(output, options, rows);
  output.object({{"builds", all}});
  return well ? 0 : 1;
}

}  // namespace

void add_matrix_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand(
      "matrix", "Show which kernel files build on which devices, and how long it takes");
  const auto options = std::make_shared<BuildOptions>();
  command->add_option("file", options->files, "OpenCL C files (default: every built-in one)")
      ->type_name("FILE...");
  add_build_task_options(*command, *options);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return matrix(*options); }; });
}

}  // namespace clora
