// Programs built once: kernel file + options make the key. Kernel: one function of a built program.
// Threads: one at a time.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/device.hpp"
#include "runtime/opencl_handles.hpp"

namespace clora {

// The -D options of a build, in the order they were set.
class Defines {
 public:
  Defines& set(std::string_view name, std::string_view value);
  Defines& set(std::string_view name, std::integral auto value) {
    return set(name, std::string_view(std::to_string(value)));
  }
  Defines& set(std::string_view name) { return set(name, std::string_view("1")); }
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

class Program;  // a built cl_program

struct Kernel {
  std::shared_ptr<const Program> program;
  std::string function;  // "rms_norm_forward"
};

class ProgramCache {
 public:
  // kernel_folder: where to read kernel files from; empty for the embedded ones.
  ProgramCache(cl_context context, const Device& device, std::filesystem::path kernel_folder);
  ~ProgramCache();
  ProgramCache(const ProgramCache&) = delete;
  ProgramCache& operator=(const ProgramCache&) = delete;

  // The function of cl/`file` built with `defines`; built at the first call. A failed build is
  // remembered and fails again at once.
  // Errors: not_found (file), build_failed with options and the compiler's log.
  Kernel kernel(std::string_view file, std::string_view function, const Defines& defines);

 private:
  std::shared_ptr<const Program> build(const std::string& file, const std::string& options);

  cl_context context_;
  cl_device_id device_;
  std::filesystem::path kernel_folder_;
  std::map<std::string, std::shared_ptr<const Program>> built_;
  std::map<std::string, std::string> failed_;  // key to message
};

}  // namespace clora
