// clora adapters: the group of commands that combine, compare and compress adapters.
#include <CLI/CLI.hpp>

#include "tools/clora/adapters/adapters_commands.hpp"
#include "tools/clora/commands/commands.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora adapters add sql=0.7 chat=0.3 --out both
  clora adapters resize both --rank 16 --out both-16
  clora adapters diff both both-16
No device is needed unless --model and --data give records to report the loss on. 'clora adapters
COMMAND --help' lists a command's options; all of them have --json.)";

}  // namespace

void add_adapters_command(CLI::App& program, Action& action) {
  CLI::App* group =
      program.add_subcommand("adapters", "Combine, extract, resize and compare adapters");
  group->require_subcommand(1);
  group->footer(kFooter);
  add_adapters_add_command(*group, action);
  add_adapters_subtract_command(*group, action);
  add_adapters_convert_command(*group, action);
  add_adapters_extract_command(*group, action);
  add_adapters_resize_command(*group, action);
  add_adapters_prune_command(*group, action);
  add_adapters_diff_command(*group, action);
  add_adapters_quantise_command(*group, action);
}

}  // namespace clora
