// A captured launch as a call, read from the folder that runtime/commands/captured_launch.hpp
// describes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/clc/call/kernel_call.hpp"
#include "tools/clc/commands/common_options.hpp"

namespace clora {

struct CapturedArgument {
  std::string name;  // empty if the driver does not report it
  ArgumentValue value;
  std::optional<ArraySpec> expected;  // of an array: its contents after the launch
  bool changed = false;               // whether the launch changed the array
};

struct CapturedCall {
  std::string op;  // "rms_norm/forward"
  std::uint64_t launch = 0;
  std::string device, driver;  // where the launch ran
  std::string file;            // the kernel's file: "gemm.cl"
  std::string kernel, options;
  GridSize global{}, local{};
  std::vector<CapturedArgument> arguments;  // in order
};

// Whether the path is the folder of a captured launch. Errors: UsageError for any other folder.
bool is_captured_call(const std::filesystem::path& path);

// Errors: invalid_file, unsupported, if call.json is malformed or of another version.
CapturedCall read_captured_call(const std::filesystem::path& folder);

// The complete call, with arguments by position. Their arrays are read by the KernelCall.
KernelCallSpec spec_of(const CapturedCall& captured, const KernelFile& file);

// The build options with the command line applied: --options replaces all of them, -D replaces the
// definition of the same name.
std::string overridden_options(const std::string& options, const ClcOptions& given);

// Replaces the captured argument of the same name or position with `given`, or appends `given`.
void override_argument(std::vector<CallArgument>& arguments, const CapturedCall& captured,
                       const CallArgument& given);

}  // namespace clora
