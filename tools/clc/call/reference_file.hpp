// Compares the results of a call with files: --reference and --compare NAME=FILE.npy and their
// tolerances, for all commands that have them.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/clc/call/comparison.hpp"
#include "tools/clc/call/kernel_call.hpp"
#include "tools/command_line/cli_declarations.hpp"
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
// An option that may be given several times, with one value each.
void add_list_option(CLI::App& command, const char* name, std::vector<std::string>& values,
                     const char* help, const char* type);

// The comparison of two arrays.
struct ComparedArrays {
  std::string got_name, wanted_name;  // "y", "expected.npy"
  HostArray got, wanted;
  Tolerance tolerance;
  ArrayComparison found;

  bool good() const { return found.bad == 0; }
  // Prints the comparison as text.
  void print(Output& output) const;
  // The comparison as JSON under "array" and `wanted_key`.
  nlohmann::ordered_json json(const char* wanted_key) const;
};

// Reads the reference of an array. NumPy lacks bf16: for a bf16 array the file's 16-bit elements
// are read as bf16. Errors: those of read_npy() and KernelCall::array().
HostArray read_reference(const KernelCall& call, const NamedFile& reference);

// Compares the current contents of an array of the call. Waits. Errors: UsageError for an unknown
// array; those of read_npy() and compare().
ComparedArrays compare_with_file(KernelCall& call, const NamedFile& reference,
                                 const Tolerance& tolerance);

}  // namespace clora
