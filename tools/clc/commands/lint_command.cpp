// clc lint: reports code in kernels that is not portable or slower than necessary.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/clc/commands/commands.hpp"
#include "tools/clc/commands/common_options.hpp"
#include "tools/clc/lint/lint.hpp"
#include "tools/clc/lint/lint_rules.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clc lint my_kernel.cl
  clc lint -D TILE=64 my_kernel.cl      a file that requires definitions
  clc lint --rules                      list the rules and their reasons
Files are read by clang-14 (Debian package clang-14): no device is needed. Each option set in a
file's head is checked, whichever device it is for.
To silence a rule, state it with the reason on the line or in the file's head:
  y[m * C] = 0;  // clc: allow index-overflow C is at most 64
  //! clc: allow non-restrict-pointer y may be x
Exit code 1 if there is an error or a warning; notes do not count.)";

struct LintCall {
  ClcOptions common;
  std::vector<std::string> files;
  bool rules = false;
  LintOptions lint;
};

int print_rules(Output& output) {
  for (const LintRule& rule : lint_rules()) {
    output.result("{} ({}{})\n  {}\n  fix: {}", rule.id, name_of(rule.severity),
                  rule.is_house ? ", with --house" : "", rule.reason, rule.fix);
    output.object({{"rule", rule.id},
                   {"severity", name_of(rule.severity)},
                   {"house", rule.is_house},
                   {"reason", rule.reason},
                   {"fix", rule.fix}});
  }
  return 0;
}

// The path for an editor: next to the given file, or in a folder of -I.
std::string path_of(const KernelFile& file, const std::string& name) {
  for (const std::filesystem::path& folder : file.folders) {
    if (std::filesystem::is_regular_file(folder / name)) {
      return folder == "." ? name : (folder / name).string();
    }
  }
  return name;
}

// The source line with a caret under the column.
std::string picture(const std::string& line, int column) {
  if (line.empty() || column < 1) return {};
  std::string below;
  for (std::size_t i = 0; i + 1 < static_cast<std::size_t>(column) && i < line.size(); ++i) {
    below += line[i] == '\t' ? '\t' : ' ';
  }
  return "\n" + line + "\n" + below + "^";
}

void print(Output& output, const KernelFile& file, const LintFinding& finding) {
  const std::string path = path_of(file, finding.location.file);
  const std::string line = file.line(finding.location.file, finding.location.line);
  output.result("{}:{}:{}: {}: {} [{}]{}", path, finding.location.line, finding.location.column,
                name_of(finding.severity), finding.text, finding.rule,
                picture(line, finding.location.column));
  if (!finding.options.empty()) output.detail("  with {}", finding.options);
  output.object({{"file", path},
                 {"line", finding.location.line},
                 {"column", finding.location.column},
                 {"severity", name_of(finding.severity)},
                 {"rule", finding.rule},
                 {"text", finding.text},
                 {"source", line},
                 {"options", finding.options}});
}

int lint_files(const LintCall& call) {
  Output output(call.common.output);
  if (call.rules) return print_rules(output);
  if (call.files.empty()) throw UsageError("clc lint: requires at least one file, got none");
  int failures = 0, notes = 0;
  for (const std::string& path : call.files) {
    const KernelFile file = open_kernel_file(path, call.common.include_folders);
    const std::vector<BuildSet> sets = every_build_set(call.common, file);
    for (const LintFinding& finding : lint(file, sets, call.lint)) {
      print(output, file, finding);
      ++(finding.severity == Severity::note ? notes : failures);
    }
  }
  output.info("files: {}, errors and warnings: {}, notes: {}", call.files.size(), failures, notes);
  return failures == 0 ? 0 : 1;
}

}  // namespace

void add_lint_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("lint", "Find non-portable and slow code in kernels");
  const auto call = std::make_shared<LintCall>();
  command->add_option("FILE", call->files, "Kernel files, or names of built-in ones");
  command->add_flag("--rules", call->rules, "List the rules with their reasons and exit");
  command->add_flag("--house", call->lint.house, "Also check the rules of clora's own style");
  add_build_options(*command, call->common);
  add_output_options(*command, call->common);
  command->footer(kFooter);
  command->callback([call, &action] { action = [call] { return lint_files(*call); }; });
}

}  // namespace clora
