#include "tools/command_line/program.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>

#include "clora/runtime/context.hpp"
#include "clora/runtime/device/driver_cache.hpp"
#include "clora/runtime/device/driver_threads.hpp"
#include "clora/runtime/error.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/crash_mark.hpp"
#include "tools/command_line/driver_registry.hpp"
#include "tools/command_line/manual/manual_commands.hpp"
#include "tools/command_line/printable.hpp"
#include "tools/command_line/setting_names.hpp"
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
  return argument.size() > 1 && argument.starts_with("-");
}

// The command named by the first `words` arguments ("train", "cache list"); null if the arguments
// do not begin with a command and only request help or the version.
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
          ? fmt::format("unknown command '{}'; '{} --help' lists them", word, full_name(group))
          : fmt::format("unknown command '{}'; did you mean '{}'?", word, meant));
}

// Errors: UsageError if the command has no such option.
void require_known(const std::string& argument, const CLI::App& command);

Called called_command(CLI::App& program, const std::vector<std::string>& arguments) {
  Called called;
  for (CLI::App* group = &program; !group->get_subcommands({}).empty(); group = called.command) {
    if (called.words == arguments.size()) {
      throw UsageError(
          fmt::format("a command is required; '{} --help' lists them", full_name(*group)));
    }
    const std::string& word = arguments[called.words];
    if (is_option(word)) {
      require_known(word, *group);
      return {};
    }
    called = {&command_named(*group, word), called.words + 1};
  }
  return called;
}

// The option of an argument that begins with a dash; null if the command has no such option. The
// value of a short option may follow without a space: -Ifolder.
const CLI::Option* find_option(const std::string& argument, const CLI::App& command) {
  if (argument.starts_with("--")) {
    return command.get_option_no_throw(argument.substr(0, argument.find('=')));
  }
  return command.get_option_no_throw(argument.substr(0, 2));
}

void require_known(const std::string& argument, const CLI::App& command) {
  if (find_option(argument, command) != nullptr) return;
  throw UsageError(unknown_option_message(argument.substr(0, argument.find('=')), command));
}

struct GivenOptions {
  std::vector<std::string> names;  // without dashes
  std::string config;              // value of --config; empty: none
};

// The options that the arguments name. Runs before CLI11 parses, so a wrong option is reported
// directly and not through its consequences. Errors: UsageError.
GivenOptions given_options(const Called& called, const std::vector<std::string>& arguments) {
  const CLI::App& command = *called.command;
  GivenOptions given;
  for (std::size_t i = called.words; i < arguments.size() && arguments[i] != "--"; ++i) {
    if (!is_option(arguments[i])) continue;
    require_known(arguments[i], command);
    const CLI::Option& option = *find_option(arguments[i], command);
    const std::size_t equals = arguments[i].find('=');
    const std::string name = arguments[i].substr(0, equals).substr(2);  // empty for a short option
    given.names.push_back(name);
    std::string value = equals == std::string::npos ? "" : arguments[i].substr(equals + 1);
    const bool attached = !arguments[i].starts_with("--") && arguments[i].size() > 2;
    const bool takes_next =
        equals == std::string::npos && !attached && option.get_items_expected_min() > 0;
    if (takes_next && i + 1 < arguments.size()) value = arguments[++i];
    if (name == "config") given.config = value;
  }
  return given;
}

// The arguments for CLI11, with their origin.
struct Parsed {
  std::vector<std::string> arguments;
  std::string config;                    // the configuration file; empty: none
  std::vector<std::string> from_config;  // its arguments: "--rank=8"
};

// Inserts the arguments of the configuration file after the command's name.
Parsed with_config(const Called& called, const std::vector<std::string>& arguments) {
  const GivenOptions given = given_options(called, arguments);
  if (given.config.empty()) return {arguments, {}, {}};
  Parsed parsed{
      {}, given.config, arguments_from_config(given.config, *called.command, given.names)};
  const auto options = arguments.begin() + static_cast<std::ptrdiff_t>(called.words);
  parsed.arguments.assign(arguments.begin(), options);
  parsed.arguments.insert(parsed.arguments.end(), parsed.from_config.begin(),
                          parsed.from_config.end());
  parsed.arguments.insert(parsed.arguments.end(), options, arguments.end());
  return parsed;
}

bool mentions(std::string_view message, std::string_view option) {
  const std::size_t at = message.find(option);
  if (at == std::string_view::npos) return false;
  const std::string_view after = message.substr(at + option.size());
  return after.empty() || std::string_view(" :=").find(after.front()) != std::string_view::npos;
}

// CLI11's message as a sentence ("--lr: must be" becomes "--lr must be"), with the name of the
// configuration file if the option comes from it.
std::string message_of(const CLI::ParseError& error, const Parsed& parsed) {
  std::string message = error.what();
  const std::size_t must = message.find(": must be ");
  if (must != std::string::npos) message.erase(must, 1);
  for (const std::string& argument : parsed.from_config) {
    if (argument.starts_with("--") && mentions(message, argument.substr(0, argument.find('=')))) {
      return fmt::format("'{}': {}", parsed.config, message);
    }
  }
  return message;
}

// Rewrites 'clora help train' to 'clora train --help'.
std::vector<std::string> without_help_command(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() != "help") return arguments;
  std::vector<std::string> with_help(arguments.begin() + 1, arguments.end());
  with_help.emplace_back("--help");
  return with_help;
}

int report(const CLI::App& program, std::string_view message, int code) {
  clear_terminal_line();
  std::cerr << program.get_name() << ": error: " << printable(with_option_names(message))
            << std::endl;
  return code;
}

// Runs the action with pocl's cache inside clora's cache folder, where damaged files are detected.
int run_action(const CLI::App& program, const Action& action) {
  Hooks hooks;
  hooks.log = [&](LogLevel level, std::string_view message) {
    if (level >= LogLevel::warning) {
      std::cerr << program.get_name() << ": warning: " << printable(with_option_names(message))
                << std::endl;
    }
  };
  register_installed_driver(kNvidiaDriver, default_cache_folder());
  pin_driver_threads();
  const DriverCache drivers(default_cache_folder(), hooks);
  const CrashMark crash(drivers.crash_descriptor());
  const int code = action();
  clear_terminal_line();
  return code;
}

int parse_and_run(CLI::App& program, const std::vector<std::string>& given, Action& action) {
  const std::vector<std::string> arguments = without_help_command(given);
  const Called called = called_command(program, arguments);
  const Parsed parsed =
      called.command == nullptr ? Parsed{arguments, {}, {}} : with_config(called, arguments);
  try {
    // CLI11 expects the arguments in reverse order.
    program.parse(std::vector<std::string>(parsed.arguments.rbegin(), parsed.arguments.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // help and version
    return report(program, message_of(error, parsed), kUsage);
  }
  return action ? run_action(program, action) : kOk;
}

}  // namespace

int run_program(const CommandProgram& described, const std::vector<std::string>& arguments) {
  // A closed pipe must not end a training run; the write fails instead, which Output handles.
  std::signal(SIGPIPE, SIG_IGN);
  // Likewise, exceeding the file size limit becomes a write error that names the file.
  std::signal(SIGXFSZ, SIG_IGN);
  CLI::App program{described.description};
  Action action;
  program.name(described.name);
  program.require_subcommand(1);
  program.set_version_flag("-V,--version", described.name + ' ' + described.version);
  program.footer(described.footer);
  program.get_formatter()->column_width(34);
  program.option_defaults()->take_last();
  described.add_commands(program, action);
  add_manual_commands(program, described.version);
  try {
    return parse_and_run(program, arguments, action);
  } catch (const UsageError& error) {
    return report(program, error.what(), kUsage);
  } catch (const std::bad_alloc&) {
    return report(program, "out of host memory", kFailed);
  } catch (const nlohmann::json::exception&) {  // its messages are not meant for users
    return report(program, "a JSON value has an unexpected type or value; this is a bug in clora",
                  kFailed);
  } catch (const Error& error) {
    const bool no_device = error.code() == ErrorCode::no_device;
    return report(
        program,
        no_device ? fmt::format("{}; '{} doctor' checks this machine", error.what(), described.name)
                  : error.what(),
        kFailed);
  } catch (const std::exception& error) {
    return report(program, error.what(), kFailed);
  }
}

}  // namespace clora
