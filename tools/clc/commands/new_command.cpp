// clc new: creates the files of a new op family, or a kernel file alone.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/clc/commands/commands.hpp"
#include "tools/clc/commands/common_options.hpp"
#include "tools/clc/new_family/new_family.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clc new scaled_shift                in the folder of clora's sources
  clc new scaled_shift --kernel-only  a kernel file alone, anywhere
Writes cl/NAME.cl, ops/NAME.hpp and .cpp, tests/reference/NAME_reference.hpp,
tests/ops/NAME_test.cpp and bench/NAME_bench.cpp: the small op y = alpha x + beta, which builds and
passes its test as it is. Adapt it; docs/kernel_authoring.md walks through it.
No file is ever overwritten.
Exit codes: 0 success, 1 the files could not be written, 2 usage error.)";

struct NewOptions {
  ClcOptions common;
  std::string name;
  std::filesystem::path folder = ".";
  bool kernel_only = false;
};

void print_next_steps(const NewOptions& options, const std::filesystem::path& kernel,
                      Output& output) {
  output.info("Next:");
  output.info("  clc build {}", kernel.string());
  output.info("  clc lint {}{}", options.kernel_only ? "" : "--house ", kernel.string());
  if (options.kernel_only) return;
  output.info("  cmake --preset release && cmake --build --preset release --target {}_test",
              options.name);
  output.info("  ctest --preset release -R '^{}$'", options.name);
}

int make(const NewOptions& options) {
  Output output(options.common.output);
  const std::vector<NewFile> files = files_of_new_family(options.name, options.kernel_only);
  if (!options.kernel_only) require_checkout(options.folder);
  require_free_name(options.folder, options.name, files);
  write_new_files(options.folder, files);
  nlohmann::ordered_json paths = nlohmann::ordered_json::array();
  for (const NewFile& file : files) {
    const std::filesystem::path path = (options.folder / file.path).lexically_normal();
    output.result("{}", path.string());
    paths.push_back(path.string());
  }
  print_next_steps(options, (options.folder / files.front().path).lexically_normal(), output);
  output.object({{"name", options.name}, {"files", paths}});
  return 0;
}

}  // namespace

void add_new_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("new", "Write the files of a new op family");
  const auto options = std::make_shared<NewOptions>();
  command->add_option("name", options->name, "Name of the family, such as rms_norm")
      ->type_name("FAMILY")
      ->required();
  command->add_option("--folder", options->folder, "Folder of clora's sources")
      ->type_name("FOLDER")
      ->capture_default_str();
  command->add_flag("--kernel-only", options->kernel_only,
                    "Write only FOLDER/FAMILY.cl, which does not need clora's sources");
  add_output_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return make(*options); }; });
}

}  // namespace clora
