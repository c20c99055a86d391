// Programs built once: kernel file + options make the key. Kernel: one function of a built program.
//
// With a ProgramStore, binaries outlive the process. Whatever is wrong with the store or with an
// entry, the program is built from source and the Context's log hears of it once.
// Threads: one at a time.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.hpp"
#include "runtime/device_health.hpp"
#include "runtime/hooks.hpp"
#include "runtime/opencl_handles.hpp"
#include "runtime/program_store.hpp"

namespace clora {

// The options of a build, in the order they were set: names and values, and any others.
class Defines {
 public:
  Defines& set(std::string_view name, std::string_view value);
  Defines& set(std::string_view name, std::integral auto value) {
    return set(name, std::string_view(std::to_string(value)));
  }
  Defines& set(std::string_view name) { return set(name, std::string_view("1")); }
  // Any option ("-cl-mad-enable"); one of -cl-std takes the place of CL1.2.
  Defines& add_option(std::string_view option);
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

// What a driver is given for them.
std::string build_options(const Defines& defines);

class Program;  // a built cl_program

struct Kernel {
  std::shared_ptr<const Program> program;
  std::string function;  // "rms_norm_forward"
};

// What a kernel's program was built from.
struct ProgramSource {
  std::string file;     // "rms_norm.cl"
  std::string text;     // with includes resolved, as the driver gets it
  std::string options;  // as the driver gets them
};

struct ProgramCacheConfig {
  std::vector<std::filesystem::path> kernel_folders;  // of kernel files; none: the embedded ones
  std::shared_ptr<ProgramStore> store;                // null: nothing is kept
  Hooks hooks;
  std::shared_ptr<const DeviceHealth> health;  // null, or: a lost device is asked for no binary
};

class ProgramCache {
 public:
  ProgramCache(cl_context context, const Device& device, ProgramCacheConfig config);
  // Stores what is not stored yet, for at most a second or a twentieth of the time that the cache
  // lived, whichever is more; at least one program. REQUIRES: the kernels' commands have ended.
  ~ProgramCache();
  ProgramCache(const ProgramCache&) = delete;
  ProgramCache& operator=(const ProgramCache&) = delete;

  // The function of `file` built with `defines`; built, or loaded from the store, at the first
  // call. A failed build is remembered and fails again at once.
  // Metrics: program_cache.hits or .misses (1 a program), .rejected (1 an entry of no use),
  // .build_seconds (a build from source). Hooks::build is called around each build from source.
  // Errors: not_found (file), build_failed with options and the compiler's log.
  Kernel kernel(std::string_view file, std::string_view function, const Defines& defines);

  // Nothing for a kernel of another cache.
  std::optional<ProgramSource> source_of(const Kernel& kernel) const;

  // Stores programs built from source that are not stored yet, until `seconds` have passed; at
  // least one. Drivers whose binaries are whole right after the build have theirs stored then; pocl
  // adds machine code when a kernel first runs, and makes more when asked for the binary (some 0.1
  // to 1 s a program), so call this when the kernels of interest have run. The number of programs
  // that are still not stored.
  std::size_t store_new_programs(double seconds);

 private:
  struct Built;

  Built& built(const std::string& file, const std::string& options, std::string_view function);
  void load_or_build(Built& built);
  void require_machine_code(Built& built, const std::string& function);
  bool load(Built& built);
  void build(Built& built);
  void store(Built& built);
  void distrust_store(std::string_view what);

  cl_context context_;
  Device device_;
  ProgramCacheConfig config_;
  std::chrono::steady_clock::time_point born_ = std::chrono::steady_clock::now();
  std::map<std::string, std::unique_ptr<Built>> built_;
  std::map<std::string, std::string> failed_;  // key to message
  std::size_t builds_ = 0;                     // from source, so far
  bool warned_ = false;                        // of the store
};

}  // namespace clora
