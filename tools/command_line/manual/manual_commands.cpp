#include "tools/command_line/manual/manual_commands.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "clora/runtime/files/file.hpp"
#include "tools/command_line/health/environment_checks.hpp"
#include "tools/command_line/manual/completion.hpp"
#include "tools/command_line/manual/man_page.hpp"
#include "tools/command_line/output.hpp"

namespace clora {
namespace {

// {0}: the program.
constexpr const char* kFooter = R"help(Examples:
  eval "$({0} completion bash)"        in ~/.bashrc
  eval "$({0} completion zsh)"         in ~/.zshrc, after compinit
  {0} completion fish > ~/.config/fish/completions/{0}.fish
An installed {0} brings these files, and shells find them without a line of yours.)help";

std::string script_for(const std::string& shell, const CommandFacts& program) {
  if (shell == "bash") return bash_completion(program);
  return shell == "zsh" ? zsh_completion(program) : fish_completion(program);
}

void add_completion_command(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("completion", "Print a script that completes options in a shell");
  const auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "Shell that reads the script")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->required();
  command->footer(fmt::format(fmt::runtime(kFooter), program.get_name()));
  command->callback([shell, &program] {
    Output output({.program = program.get_name()});
    output.text(script_for(*shell, command_facts(program)));
  });
}

std::vector<VariableFacts> variables() {
  std::vector<VariableFacts> all;
  for (const DocumentedVariable& each : documented_variables())
    all.push_back({each.name, each.effect});
  return all;
}

// Writes the files to where shells and man look for them below a folder `share`.
void write_manual(const std::filesystem::path& share, const CommandFacts& program,
                  const std::string& version) {
  const auto write = [&](const std::filesystem::path& file, const std::string& text) {
    std::filesystem::create_directories((share / file).parent_path());
    write_file_atomically(share / file, text);
  };
  write("bash-completion/completions/" + program.word, bash_completion(program));
  write("zsh/site-functions/_" + program.word, zsh_completion(program));
  write("fish/vendor_completions.d/" + program.word + ".fish", fish_completion(program));
  for (const ManPage& page : man_pages(program, version, variables())) {
    write("man/man1/" + page.file, page.text);
  }
}

void add_manual_command(CLI::App& program, const std::string& version) {
  CLI::App* command =
      program.add_subcommand("manual", "Write completion scripts and manual pages to a folder");
  command->group("");  // not listed
  const auto folder = std::make_shared<std::string>();
  command->add_option("--out", *folder, "Folder 'share' to write to")->type_name("DIR")->required();
  command->footer(fmt::format("Example:\n  {0} manual --out ~/.local/share", program.get_name()));
  command->callback(
      [folder, version, &program] { write_manual(*folder, command_facts(program), version); });
}

}  // namespace

void add_manual_commands(CLI::App& program, const std::string& version) {
  add_completion_command(program);
  add_manual_command(program, version);
}

}  // namespace clora
