#include "tools/clora/command_line.hpp"

#include <algorithm>
#include <iostream>

#include "runtime/error.hpp"
#include "tools/clora/commands.hpp"
#include "tools/clora/config_file.hpp"
#include "tools/clora/suggestion.hpp"

#ifndef CLORA_VERSION
#define CLORA_VERSION "unknown"
#endif

namespace clora {
namespace {

constexpr int kOk = 0, kFailed = 1, kUsage = 2;

constexpr const char* kFooter = R"(Fine-tune, look and use:
  clora train    --model MODEL.gguf --data FOLDER --adapter-out my-adapter --epochs 1
  clora eval     --model MODEL.gguf --data FOLDER/test.jsonl --adapter my-adapter
  clora generate --model MODEL.gguf --adapter my-adapter --prompt "Once upon a time"
'clora COMMAND --help' tells the options, defaults and units of a command.
Exit codes: 0 done, 2 a mistake in the call, 1 anything else.)";

void add_commands(CLI::App& program, Action& action) {
  program.name("clora");
  program.require_subcommand(1);
  program.set_version_flag("--version", std::string("clora ") + CLORA_VERSION);
  program.footer(kFooter);
  program.get_formatter()->column_width(34);
  program.option_defaults()->take_last();
  add_train_command(program, action);
  add_eval_command(program, action);
  add_generate_command(program, action);
  add_chat_command(program, action);
  add_tokenize_command(program, action);
  add_fuse_command(program, action);
  add_devices_command(program, action);
  add_info_command(program, action);
  add_bench_command(program, action);
}

std::vector<std::string> command_names(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

bool is_option(const std::string& argument) {
  return argument.size() > 2 && argument.starts_with("--");
}

// The command that is called; nullptr where the arguments do not begin with one and ask for help
// or the version instead.
CLI::App* called_command(CLI::App& program, const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw UsageError("a command is needed; 'clora --help' lists them");
  const std::string& word = arguments.front();
  if (word.starts_with("-")) return nullptr;
  for (CLI::App* command : program.get_subcommands({})) {
    if (command->get_name() == word) return command;
  }
  const std::string meant = suggestion_for(word, command_names(program));
  throw UsageError(meant.empty()
                       ? fmt::format("unknown command '{}'; 'clora --help' lists them", word)
                       : fmt::format("unknown command '{}'; did you mean '{}'?", word, meant));
}

struct GivenOptions {
  std::vector<std::string> names;  // without dashes
  std::string config;              // of --config, empty: none
};

// What the arguments of a command name. Done before CLI11 parses, so that a wrong option is
// reported as such and not as a consequence of it. Errors: UsageError.
GivenOptions given_options(const CLI::App& command, const std::vector<std::string>& arguments) {
  GivenOptions given;
  for (std::size_t i = 1; i < arguments.size() && arguments[i] != "--"; ++i) {
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
std::vector<std::string> with_config(const CLI::App& command,
                                     const std::vector<std::string>& arguments) {
  const GivenOptions given = given_options(command, arguments);
  if (given.config.empty()) return arguments;
  std::vector<std::string> all{arguments.front()};
  for (std::string& argument : arguments_from_config(given.config, command, given.names)) {
    all.push_back(std::move(argument));
  }
  all.insert(all.end(), arguments.begin() + 1, arguments.end());
  return all;
}

int usage_error(const std::string& message) {
  std::cerr << "clora: error: " << message << std::endl;
  return kUsage;
}

int parse_and_run(CLI::App& program, const std::vector<std::string>& arguments, Action& action) {
  std::vector<std::string> all = arguments;
  if (const CLI::App* command = called_command(program, arguments); command != nullptr) {
    all = with_config(*command, arguments);
  }
  std::reverse(all.begin(), all.end());  // CLI11 takes them from the back
  try {
    program.parse(all);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // help and version
    return usage_error(error.what());
  }
  return action ? action() : kOk;
}

}  // namespace

int run_command_line(const std::vector<std::string>& arguments) {
  CLI::App program{"clora: LoRA fine-tuning and serving of language models on OpenCL devices"};
  Action action;
  add_commands(program, action);
  try {
    return parse_and_run(program, arguments, action);
  } catch (const UsageError& error) {
    return usage_error(error.what());
  } catch (const std::bad_alloc&) {
    std::cerr << "clora: error: the host's memory is used up" << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "clora: error: " << error.what() << std::endl;
  }
  return kFailed;
}

}  // namespace clora
