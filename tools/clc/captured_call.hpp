// A captured launch as a call: the folder that runtime/captured_launch.hpp describes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/clc/common_options.hpp"
#include "tools/clc/kernel_call.hpp"

namespace clora {

struct CapturedArgument {
  std::string name;  // empty where the driver told none
  ArgumentValue value;
  std::optional<ArraySpec> expected;  // of an array: what the launch left in it
  bool changed = false;               // by the launch
};

struct CapturedCall {
  std::string op;  // "rms_norm/forward"
  std::uint64_t launch = 0;
  std::string device, driver;  // that it ran on
  std::string file;            // "gemm.cl", where the kernel is from
  std::string kernel, options;
  GridSize global{}, local{};
  std::vector<CapturedArgument> arguments;  // in order
};

// Whether the path is the folder of one. Errors: UsageError, for a folder of anything else.
bool is_captured_call(const std::filesystem::path& path);

// Errors: invalid_file, unsupported, for a call.json that is none or of another version.
CapturedCall read_captured_call(const std::filesystem::path& folder);

// The whole call; its arguments go by position. Their arrays are read when a KernelCall is made.
KernelCallSpec spec_of(const CapturedCall& captured, const KernelFile& file);

// Options of a build with those of the command line in their place: --options takes the place of
// all, a -D that of its name.
std::string overridden_options(const std::string& options, const ClcOptions& given);

// `given` in place of the captured argument of that name or position; else after them.
void override_argument(std::vector<CallArgument>& arguments, const CapturedCall& captured,
                       const CallArgument& given);

}  // namespace clora
