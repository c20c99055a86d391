// ProgramCache: builds each program once; the key is the kernel file and the options. Kernel: one
// function of a built program.
//
// With a ProgramStore, binaries outlive the process. If the store or an entry fails in any way, the
// program is built from source and a single warning is logged per cache.
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

#include "clora/runtime/device/device.hpp"
#include "clora/runtime/device/device_health.hpp"
#include "clora/runtime/device/opencl_handles.hpp"
#include "clora/runtime/hooks.hpp"
#include "clora/runtime/programs/program_store.hpp"

namespace clora {

// The options of a build, in the order they were set: macro definitions and other options.
class Defines {
 public:
  Defines& set(std::string_view name, std::string_view value);
  Defines& set(std::string_view name, std::integral auto value) {
    return set(name, std::string_view(std::to_string(value)));
  }
  Defines& set(std::string_view name) { return set(name, std::string_view("1")); }
  // Any option ("-cl-mad-enable"); a -cl-std option replaces CL1.2.
  Defines& add_option(std::string_view option);
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

// The option string that the driver gets.
std::string build_options(const Defines& defines);

class Program;  // a built cl_program

struct Kernel {
  std::shared_ptr<const Program> program;
  std::string function;  // "rms_norm_forward"
};

// The source that a kernel's program was built from.
struct ProgramSource {
  std::string file;     // "rms_norm.cl"
  std::string text;     // with includes resolved, as passed to the driver
  std::string options;  // as passed to the driver
};

struct ProgramCacheConfig {
  std::vector<std::filesystem::path> kernel_folders;  // for kernel files; empty: the embedded ones
  std::shared_ptr<ProgramStore> store;                // null: no binaries are stored
  Hooks hooks;
  std::shared_ptr<const DeviceHealth> health;  // if lost, no binary is requested; may be null
};

class ProgramCache {
 public:
  ProgramCache(cl_context context, const Device& device, ProgramCacheConfig config);
  // Stores programs that are not stored yet, for at most one second or a twentieth of the cache's
  // lifetime, whichever is longer; at least one program. REQUIRES: the kernels' commands have
  // ended.
  ~ProgramCache();
  ProgramCache(const ProgramCache&) = delete;
  ProgramCache& operator=(const ProgramCache&) = delete;

  // Returns the function of `file` built with `defines`; the first call builds the program or loads
  // it from the store. A failed build is remembered and fails again at once.
  // Metrics: program_cache.hits or .misses (1 per program), .rejected (1 per unusable entry),
  // .build_seconds (per build from source). Hooks::build is called around each build from source.
  // Errors: not_found (file), build_failed with options and the compiler's log.
  Kernel kernel(std::string_view file, std::string_view function, const Defines& defines);

  // Nothing for a kernel of another cache.
  std::optional<ProgramSource> source_of(const Kernel& kernel) const;

  // Stores programs built from source that are not stored yet, until `seconds` have passed; at
  // least one. Returns the number of programs still not stored. If a driver's binaries are complete
  // right after the build, they are stored then. pocl adds machine code when a kernel first runs,
  // and generates more when the binary is requested (about 0.1 to 1 s per program): call this after
  // the kernels of interest have run.
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
  bool warned_ = false;                        // about the store
};

}  // namespace clora
