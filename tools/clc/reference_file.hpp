// Results of a call held against files: --reference and --compare NAME=FILE.npy with their
// tolerances, for every command that has them.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/clc/comparison.hpp"
#include "tools/clc/kernel_call.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

// "y=out.npy"
struct NamedFile {
  std::string array;
  std::filesystem::path file;
};

// Errors: UsageError, naming the option.
NamedFile named_file(const std::string& text, std::string_view option);

// --atol, --rtol and --ulp.
void add_tolerance_options(CLI::App& command, Tolerance& tolerance);
// An option that may be given several times, a value each.
void add_list_option(CLI::App& command, const char* name, std::vector<std::string>& values,
                     const char* help, const char* type);

// Two arrays that should be alike, and how far they are from it.
struct ComparedArrays {
  std::string got_name, wanted_name;  // "y", "expected.npy"
  HostArray got, wanted;
  Tolerance tolerance;
  Comparison found;

  bool good() const { return found.bad == 0; }
  // In lines for people.
  void tell(Output& output) const;
  // Under "array" and `wanted_key`.
  nlohmann::ordered_json json(const char* wanted_key) const;
};

// What a file says an array should be. NumPy lacks bf16: where the array is of it, the file's 16
// bits are. Errors: those of read_npy() and KernelCall::array().
HostArray read_reference(const KernelCall& call, const NamedFile& reference);

// An array of the call as it is now. Waits. Errors: UsageError, for no such array, and those of
// read_npy() and compare().
ComparedArrays compare_with_file(KernelCall& call, const NamedFile& reference,
                                 const Tolerance& tolerance);

}  // namespace clora
