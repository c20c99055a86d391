// clc embed: converts kernel files to C++ source, so a program needs no files at run time.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <regex>

#include "clora/runtime/error.hpp"
#include "clora/runtime/files/file.hpp"
#include "tools/clc/commands/commands.hpp"
#include "tools/clc/commands/common_options.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clc embed kernels/*.cl --out my_kernels.cpp
  clc embed scan.cl -I include --out scan_text.cpp --function scan_kernels --namespace my
Writes FILE.cpp and FILE.hpp, which declares one function that returns every file by name, with its
includes resolved:
  std::span<const std::pair<std::string_view, std::string_view>> kernel_texts();
They are C++20 and compile without clora.)";

// Compilers limit the length of a raw string literal; longer texts are concatenated from several.
constexpr std::size_t kLiteralBytes = 15000;
constexpr const char* kMark = "clc_embed";  // no text contains ")clc_embed\""

struct EmbedOptions {
  ClcOptions common;
  std::vector<std::string> files;
  std::filesystem::path out;
  std::string function = "kernel_texts";
  std::string space;
};

void require_name(const std::string& name, const char* option) {
  static const std::regex pattern("[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z_][A-Za-z0-9_]*)*");
  if (!std::regex_match(name, pattern)) {
    throw UsageError(fmt::format("{}: '{}' is not a C++ name", option, name));
  }
}

// Split at line ends.
std::string literal(const std::string& text) {
  std::string all;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    end =
        text.size() - at <= kLiteralBytes ? text.size() : text.rfind('\n', at + kLiteralBytes) + 1;
    if (end <= at) end = at + kLiteralBytes;  // a single very long line
    all += fmt::format("{}R\"{}({}){}\"", at == 0 ? "" : "\n", kMark, text.substr(at, end - at),
                       kMark);
  }
  return all;
}

std::string signature(const EmbedOptions& options) {
  return fmt::format("std::span<const std::pair<std::string_view, std::string_view>> {}()",
                     options.function);
}

std::string in_namespace(const EmbedOptions& options, const std::string& body) {
  if (options.space.empty()) return body;
  return fmt::format("namespace {} {{\n\n{}\n}}  // namespace {}\n", options.space, body,
                     options.space);
}

std::string header(const EmbedOptions& options) {
  return "// Kernel files as text, by name, includes resolved. Written by clc embed.\n"
         "#pragma once\n\n#include <span>\n#include <string_view>\n#include <utility>\n\n" +
         in_namespace(options, signature(options) + ";\n");
}

std::string source(const EmbedOptions& options, const std::filesystem::path& header_file) {
  std::string table;
  for (const std::string& path : options.files) {
    const KernelFile file = open_kernel_file(path, options.common.include_folders);
    table += fmt::format("    {{\"{}\",\n{}}},\n", file.name, literal(file.text));
  }
  const std::string body = fmt::format(
      "{} {{\n  static constexpr std::pair<std::string_view, std::string_view> texts[] = {{\n{}  "
      "}};\n  return texts;\n}}\n",
      signature(options), table);
  return fmt::format("// Written by clc embed.\n#include \"{}\"\n\n{}",
                     header_file.filename().string(), in_namespace(options, body));
}

int embed(const EmbedOptions& options) {
  require_name(options.function, "--function");
  if (!options.space.empty()) require_name(options.space, "--namespace");
  std::filesystem::path header_file = options.out;
  header_file.replace_extension(".hpp");
  if (header_file == options.out)
    throw UsageError("--out must name a source file, such as kernels.cpp");
  const std::string text = source(options, header_file);
  write_file_atomically(options.out, text);
  write_file_atomically(header_file, header(options));
  Output output(options.common.output);
  output.info("{} files in {} and {}", options.files.size(), options.out.string(),
              header_file.string());
  return 0;
}

}  // namespace

void add_embed_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("embed", "Turn kernel files into C++ source");
  const auto options = std::make_shared<EmbedOptions>();
  command->add_option("file", options->files, "OpenCL C files, or names of built-in ones")
      ->required()
      ->type_name("FILE...");
  command->add_option("--out", options->out, "Source file to write; its header goes next to it")
      ->required()
      ->type_name("FILE.cpp");
  command
      ->add_option("--function", options->function, "Name of the function that returns the texts")
      ->capture_default_str()
      ->type_name("NAME");
  command->add_option("--namespace", options->space, "Namespace of the function (default: none)")
      ->type_name("NAME");
  command
      ->add_option("-I", options->common.include_folders,
                   "Add a folder to the #include search path")
      ->type_name("FOLDER")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_output_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return embed(*options); }; });
}

}  // namespace clora
