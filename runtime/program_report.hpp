// What a driver makes of a kernel file: whether it builds, what it says, and what it tells of each
// kernel. For tools that look at kernels; ops get theirs from the program cache.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/context.hpp"

namespace clora {

struct KernelArgument {
  enum class Space { global, constant, local, value };
  std::string name;
  std::string type;  // as written: "float*", "uint4"; empty where the driver does not tell
  Space space = Space::value;
  bool read_only = false;  // const, of what it points to
};

struct KernelReport {
  std::string name;
  std::vector<KernelArgument> arguments;
  std::size_t private_bytes = 0;  // of a work-item; what does not fit its registers
  std::size_t local_bytes = 0;    // of a work-group
  std::size_t max_group = 0;      // work-items in a work-group
  std::size_t preferred_multiple = 0;
  std::array<std::size_t, 3> required_group{};  // reqd_work_group_size; 0: none
};

struct ProgramReport {
  bool built = false;
  std::string log;     // the compiler's words, warnings too
  double seconds = 0;  // until the binary was there: pocl makes machine code only for that
  std::vector<KernelReport> kernels;  // by name
  std::vector<std::byte> binary;      // empty where the driver gives none
};

// Builds `text` (runtime/kernel_text.hpp), named `file` in messages, on the Context's device, past
// its cache. options: as for clBuildProgram. A text that the driver refuses is no error: built is
// false and the log tells. Errors: device.
ProgramReport report_on_program(const Context& context, const std::string& text,
                                const std::string& file, const std::string& options);

std::string_view name_of(KernelArgument::Space space);

}  // namespace clora
