// run.toml: options of a command.
#include <CLI/CLI.hpp>
#include <algorithm>
#include "tests/fuzz/input_folder.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets.hpp"

#include "tools/command_line/config_file.hpp"

namespace clora::fuzz {
namespace {

// A command with options of each kind.
struct Command {
  CLI::App app{"", "train"};
  std::string model;
  double rate = 1;
  std::int64_t steps = 1;
  bool shuffle = true;
  std::vector<std::string> modules;

  Command() {
    app.add_option("--model", model, "A folder");
    app.add_option("--lr", rate, "A rate");
    app.add_option("--steps", steps, "A number");
    app.add_flag("--shuffle,!--no-shuffle", shuffle, "A flag");
    app.add_option("--target-modules", modules, "Names")->delimiter(',');
  }
};

// Catches the errors that CLI11 and the programs report with a message and an exit code.
void read(const std::filesystem::path& path) try {
  Command command;
  std::vector<std::string> arguments = arguments_from_config(path, command.app, {});
  std::ranges::reverse(arguments);  // the order that CLI11 requires
  command.app.parse(arguments);
  use(config_text(command.app, {"model"}));
} catch (const UsageError&) {
} catch (const CLI::Error&) {
}

}  // namespace

void read_run_config(std::string_view input) {
  static const InputFolder folder;
  const std::filesystem::path path = folder.write("run.toml", input);
  attempt([&] { read(path); });
}

std::vector<std::string> run_config_seeds() {
  return {"# a run\nmodel = \"models/tiny\"\nlr = 2e-4\nsteps = 100\nno-shuffle = true\n",
          "[train]\ntarget-modules = [\"q_proj\", 'v_proj']\nshuffle = false\n[eval]\nx = 1\n",
          "lr=\"0.1\"\nmodel=\"\"\"a\nb\"\"\"\n\"quoted key\" = [1, [2]]\n",
          "model = '~/\xc3\xa9' # \xe2\x82\xac\nlr = 0.\"0\xd2\x93r.lr=\"x\"\n"};
}

}  // namespace clora::fuzz
