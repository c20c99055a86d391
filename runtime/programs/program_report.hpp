// Reports what a driver does with a kernel file: whether it builds, the compiler's log, and the
// properties of each kernel. For tools that inspect kernels; ops get their kernels from the program
// cache.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "clora/runtime/context.hpp"

namespace clora {

struct KernelArgument {
  enum class Space { global, constant, local, value };
  std::string name;
  std::string type;  // as written: "float*", "uint4"; empty if the driver does not report it
  Space space = Space::value;
  bool read_only = false;  // whether a pointer argument points to const
};

struct KernelReport {
  std::string name;
  std::vector<KernelArgument> arguments;
  std::size_t private_bytes = 0;  // per work-item; data that does not fit in registers
  std::size_t local_bytes = 0;    // per work-group
  std::size_t max_group = 0;      // maximum work-items per work-group
  std::size_t preferred_multiple = 0;
  std::array<std::size_t, 3> required_group{};  // reqd_work_group_size; 0: none
};

// What a build does with the compiler's warnings. With `suppressed`, drivers that print the number
// of warnings to the standard error of the process print nothing.
enum class KernelWarnings { reported, suppressed };

struct ProgramReport {
  bool built = false;
  std::string log;     // the compiler's output, including warnings unless they are suppressed
  double seconds = 0;  // until the binary was available: pocl generates machine code only then
  std::vector<KernelReport> kernels;  // by name
  std::vector<std::byte> binary;      // empty if the driver provides none
};

// Builds `text` (runtime/programs/kernel_text.hpp), named `file` in messages, on the Context's
// device, without using its cache. options: as for clBuildProgram. If the driver refuses the text,
// no error is thrown: built is false and the log has the reason. Errors: device.
ProgramReport report_on_program(const Context& context, const std::string& text,
                                const std::string& file, const std::string& options,
                                KernelWarnings warnings);

std::string_view name_of(KernelArgument::Space space);

}  // namespace clora
