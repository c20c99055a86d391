// clc disasm: the instructions of kernels, grouped by source line.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/fail.hpp"
#include "tools/clc/commands/commands.hpp"
#include "tools/clc/commands/common_options.hpp"
#include "tools/clc/compile/disassembler.hpp"
#include "tools/command_line/process.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clc disasm my_kernel.cl                        for the device here: x86 with pocl, PTX with NVIDIA
  clc disasm my_kernel.cl --kernel gemm --target gfx90a
  clc disasm old.cl --diff new.cl --target sm_80
Instructions are listed under their source line, except for x86, since pocl does not store line
numbers. A comparison numbers labels in order and omits source lines.)";
constexpr double kDiffSeconds = 60;

struct DisasmOptions : ClcOptions {
  std::string file, kernel, other;
  std::vector<std::string> targets;
};

std::vector<Disassembly> disassemble(const DisasmOptions& options, const std::string& path) {
  const KernelFile file = open_kernel_file(path, options.include_folders);
  Disassembler disassembler(options);
  std::vector<std::string> words = options.targets;
  if (words.empty()) words = {"device"};
  std::vector<Disassembly> all;
  for (const Target& target : targets_named(words)) {
    for (Disassembly& each : disassembler.disassemble(path, file, target)) {
      all.push_back(std::move(each));
    }
  }
  return all;
}

// Removes all kernels except the requested one. Errors: not_found, with a list of the kernels.
void keep_kernel(std::vector<Disassembly>& all, const std::string& path,
                 const std::string& kernel) {
  if (kernel.empty()) return;
  std::vector<std::string> names;
  bool any = false, found = false;
  for (Disassembly& each : all) {
    any = any || each.error.empty();
    for (const KernelListing& listing : each.kernels) {
      if (std::ranges::find(names, listing.kernel) == names.end()) names.push_back(listing.kernel);
    }
    std::erase_if(each.kernels, [&](const KernelListing& one) { return one.kernel != kernel; });
    found = found || !each.kernels.empty();
  }
  if (any && !found) {
    fail(ErrorCode::not_found, "clc disasm: {} has no kernel '{}'; its kernels are {}", path,
         kernel, fmt::join(names, ", "));
  }
}

std::string text_of(const KernelListing& listing, const KernelFile& file) {
  std::string text, source;
  int line = -1;
  for (const AssemblyLine& each : listing.lines) {
    if (each.line != line || each.file != source) {
      line = each.line;
      source = each.file;
      if (line > 0) {
        std::string words = file.line(source, line);
        words.erase(0, std::min(words.find_first_not_of(" \t"), words.size()));
        text += fmt::format("{}:{}  {}\n", source, line, words);
      }
    }
    text += (each.text.ends_with(':') ? "  " : "      ") + each.text + '\n';
  }
  return text;
}

std::string title_of(const Disassembly& each) {
  return fmt::format("{}  {}", each.target.name,
                     each.options.empty() ? "(no options)" : each.options);
}

nlohmann::ordered_json json_of(const Disassembly& each) {
  nlohmann::ordered_json object{
      {"options", each.options}, {"target", each.target.name}, {"built", each.error.empty()}};
  if (!each.error.empty()) object["error"] = each.error;
  auto kernels = nlohmann::ordered_json::array();
  for (const KernelListing& listing : each.kernels) {
    auto lines = nlohmann::ordered_json::array();
    for (const AssemblyLine& line : listing.lines) {
      lines.push_back({{"file", line.file}, {"line", line.line}, {"text", line.text}});
    }
    kernels.push_back({{"kernel", listing.kernel}, {"lines", lines}});
  }
  object["kernels"] = kernels;
  return object;
}

bool any_built(const std::vector<Disassembly>& all) {
  return std::ranges::any_of(all, &std::string::empty, &Disassembly::error);
}

int list(const DisasmOptions& options) {
  Output output(options.output);
  std::vector<Disassembly> all = disassemble(options, options.file);
  keep_kernel(all, options.file, options.kernel);
  const KernelFile file = open_kernel_file(options.file, options.include_folders);
  if (all.empty()) {
    output.warning("{}: its head has no option set for these targets", options.file);
  }
  auto listings = nlohmann::ordered_json::array();
  for (const Disassembly& each : all) {
    listings.push_back(json_of(each));
    if (!each.error.empty()) {
      output.result("{}: {}: not for this target: {}", options.file, title_of(each), each.error);
    }
    for (const KernelListing& listing : each.kernels) {
      output.result("{}: kernel {}: {}\n{}", options.file, listing.kernel, title_of(each),
                    text_of(listing, file));
    }
  }
  output.object({{"file", options.file}, {"listings", listings}});
  return all.empty() || any_built(all) ? 0 : 1;
}

std::string normalised_text(const std::vector<Disassembly>& all) {
  std::string text;
  for (const Disassembly& each : all) {
    for (const KernelListing& listing : each.kernels) {
      text +=
          fmt::format("kernel {}: {}\n{}", listing.kernel, each.target.name, normalised(listing));
    }
  }
  return text;
}

void require_built(const std::vector<Disassembly>& all, const std::string& path) {
  for (const Disassembly& each : all) {
    if (each.error.empty()) continue;
    fail(ErrorCode::build_failed, "clc disasm: {} for {}: {}", path, title_of(each), each.error);
  }
}

int compare(const DisasmOptions& options) {
  Output output(options.output);
  const WorkFolder folder;
  std::vector<std::string> command{"diff", "-u"};
  std::vector<std::string> files;
  for (const std::string& path : {options.file, options.other}) {
    std::vector<Disassembly> all = disassemble(options, path);
    require_built(all, path);
    keep_kernel(all, path, options.kernel);
    files.push_back(folder / std::to_string(files.size()));
    write_text(files.back(), normalised_text(all));
    command.insert(command.end(), {"--label", path});
  }
  command.insert(command.end(), files.begin(), files.end());
  const ProcessResult result = run_process(command, kDiffSeconds);
  if (result.end != ProcessResult::End::exited || result.code > 1) {
    fail(ErrorCode::io, "clc disasm: diff {}: {}", end_text(result), result.err);
  }
  output.object({{"file", options.file}, {"other", options.other}, {"diff", result.out}});
  output.result("{}", result.out.empty() ? "The instructions are identical." : result.out);
  return 0;
}

}  // namespace

void add_disasm_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("disasm", "Show the instructions of kernels under their source lines");
  const auto options = std::make_shared<DisasmOptions>();
  command->add_option("file", options->file, "Kernel file, or the name of a built-in one")
      ->type_name("FILE")
      ->required();
  command->add_option("--kernel", options->kernel, "Show only this kernel")->type_name("NAME");
  command->add_option("--diff", options->other, "Compare with another version of the file")
      ->type_name("FILE");
  add_target_option(*command, options->targets);
  add_device_option(*command, *options);
  add_build_options(*command, *options);
  add_output_options(*command, *options);
  command->footer(kFooter);
  command->callback([options, &action] {
    action = [options] { return options->other.empty() ? list(*options) : compare(*options); };
  });
}

}  // namespace clora
