#include "tools/command_line/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <iostream>

#include "runtime/context.hpp"
#include "runtime/driver_cache.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/crash_mark.hpp"
#include "tools/command_line/suggestion.hpp"
#include "tools/command_line/terminal_line.hpp"

namespace clora {
namespace {

constexpr int kOk = 0, kFailed = 1, kUsage = 2;

std::vector<std::string> command_names(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

bool is_option(const std::string& argument) {
  return argument.size() > 2 && argument.starts_with("--");
}

// The command that is called, by its first `words` arguments ("train", "cache list"); null where
// the arguments do not begin with one and ask for help or the version instead.
struct Called {
  CLI::App* command = nullptr;
  std::size_t words = 0;
};

CLI::App& command_named(CLI::App& group, const std::string& word) {
  for (CLI::App* command : group.get_subcommands({})) {
    if (command->get_name() == word) return *command;
  }
  const std::string meant = suggestion_for(word, command_names(group));
  throw UsageError(
      meant.empty()
          ? fmt::format("unknown command '{}'; '{} --help' lists them", word, group.get_name())
          : fmt::format("unknown command '{}'; did you mean '{}'?", word, meant));
}

Called called_command(CLI::App& program, const std::vector<std::string>& arguments) {
  Called called;
  for (CLI::App* group = &program; !group->get_subcommands({}).empty(); group = called.command) {
    if (called.words == arguments.size()) {
      throw UsageError(
          fmt::format("a command is needed; '{} --help' lists them", group->get_name()));
    }
    const std::string& word = arguments[called.words];
    if (word.starts_with("-")) return {};
    called = {&command_named(*group, word), called.words + 1};
  }
  return called;
}

struct GivenOptions {
  std::vector<std::string> names;  // without dashes
  std::string config;              // of --config, empty: none
};

// What the arguments of a command name. Done before CLI11 parses, so that a wrong option is
// reported as such and not as a consequence of it. Errors: UsageError.
GivenOptions given_options(const Called& called, const std::vector<std::string>& arguments) {
  const CLI::App& command = *called.command;
  GivenOptions given;
  for (std::size_t i = called.words; i < arguments.size() && arguments[i] != "--"; ++i) {
    if (!is_option(arguments[i])) continue;
    const std::size_t equals = arguments[i].find('=');
    const std::string name =
        arguments[i].substr(2, equals == std::string::npos ? equals : equals - 2);
    const CLI::Option* option = command.get_option_no_throw("--" + name);
    if (option == nullptr) throw UsageError(unknown_option_message(name, command));
    given.names.push_back(name);
    std::string value = equals == std::string::npos ? "" : arguments[i].substr(equals + 1);
    const bool takes_next = equals == std::string::npos && option->get_items_expected_min() > 0;
    if (takes_next && i + 1 < arguments.size()) value = arguments[++i];
    if (name == "config") given.config = value;
  }
  return given;
}

// The arguments with those of the configuration file put behind the command's name.
std::vector<std::string> with_config(const Called& called,
                                     const std::vector<std::string>& arguments) {
  const GivenOptions given = given_options(called, arguments);
  if (given.config.empty()) return arguments;
  const auto options = arguments.begin() + static_cast<std::ptrdiff_t>(called.words);
  std::vector<std::string> all(arguments.begin(), options);
  for (std::string& argument : arguments_from_config(given.config, *called.command, given.names)) {
    all.push_back(std::move(argument));
  }
  all.insert(all.end(), options, arguments.end());
  return all;
}

int report(const CLI::App& program, std::string_view message, int code) {
  clear_terminal_line();
  std::cerr << program.get_name() << ": error: " << message << std::endl;
  return code;
}

// Runs the action with pocl's own cache in our cache folder, where damaged files are noticed.
int run_action(const CLI::App& program, const Action& action) {
  Hooks hooks;
  hooks.log = [&](LogLevel level, std::string_view message) {
    if (level >= LogLevel::warning) {
      std::cerr << program.get_name() << ": warning: " << message << std::endl;
    }
  };
  const DriverCache drivers(default_cache_folder(), hooks);
  const CrashMark crash(drivers.crash_descriptor());
  const int code = action();
  clear_terminal_line();
  return code;
}

int parse_and_run(CLI::App& program, const std::vector<std::string>& arguments, Action& action) {
  std::vector<std::string> all = arguments;
  const Called called = called_command(program, arguments);
  if (called.command != nullptr) all = with_config(called, arguments);
  std::reverse(all.begin(), all.end());  // CLI11 takes them from the back
  try {
    program.parse(all);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // help and version
    return report(program, error.what(), kUsage);
  }
  return action ? run_action(program, action) : kOk;
}

}  // namespace

int run_program(const CommandProgram& described, const std::vector<std::string>& arguments) {
  // A reader that goes away must not end a training run; writing then fails, which Output handles.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App program{described.description};
  Action action;
  program.name(described.name);
  program.require_subcommand(1);
  program.set_version_flag("--version", described.name + ' ' + described.version);
  program.footer(described.footer);
  program.get_formatter()->column_width(34);
  program.option_defaults()->take_last();
  described.add_commands(program, action);
  try {
    return parse_and_run(program, arguments, action);
  } catch (const UsageError& error) {
    return report(program, error.what(), kUsage);
  } catch (const std::bad_alloc&) {
    return report(program, "the host's memory is used up", kFailed);
  } catch (const std::exception& error) {
    return report(program, error.what(), kFailed);
  }
}

}  // namespace clora
