// DriverCache: pocl's own cache of compiled kernels, in a folder whose files have checksums.
//
// pocl reads files of earlier processes without checking them: a truncated file aborts the process
// with a failed assertion, and a modified one may compute something else. A DriverCache compares
// every file with its checksum before the driver is loaded, removes the files that have changed,
// and points pocl to the folder. After a process crashed while it used the folder, the full cache
// is removed if the program records crashes, because a file may have been wrong when it got its
// checksum.
//
//   FOLDER/lock             flock: shared by processes that use the folder, exclusive for cleaning
//   FOLDER/checksums        digest, size and path of each file in kernels/, and a digest of these
//   FOLDER/processes/PID-T  a process that uses the folder (runtime/programs/locked_mark.hpp)
//   FOLDER/kernels/         POCL_CACHE_DIR; its files are pocl's
//
// A file gets its checksum when the process that created it exits normally. Files of a killed
// process are removed by the next process that has the folder to itself. Other drivers protect
// their caches themselves. Threads: the constructor changes the environment of the process
// (setenv), which no other thread may read at the same time. Create the DriverCache in main(),
// before other threads start and before the first OpenCL call, and destroy it after the last
// Context.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "clora/runtime/hooks.hpp"

namespace clora {

class DriverCache {
 public:
  static constexpr std::uintmax_t kLimitBytes = std::uintmax_t{256} << 20U;

  // Uses `cache_folder`/pocl (default_cache_folder() in runtime/context.hpp); no-op if cache_folder
  // is empty or POCL_CACHE_DIR is set. If others can write to the folder, or if it cannot be
  // created, pocl keeps its default folder. hooks.log reports this and all removed files. A cache
  // larger than limit_bytes is emptied.
  explicit DriverCache(const std::filesystem::path& cache_folder, const Hooks& hooks = {},
                       std::uintmax_t limit_bytes = kLimitBytes) noexcept;
  // Adds the checksums of the new files.
  ~DriverCache();
  DriverCache(const DriverCache&) = delete;
  DriverCache& operator=(const DriverCache&) = delete;

  // Whether pocl uses the folder.
  bool active() const noexcept { return use_ != nullptr; }

  // A descriptor to which a program's handler of SIGSEGV and similar signals, if any, writes a
  // byte; -1 if the folder is not used.
  int crash_descriptor() const noexcept;

 private:
  class Use;
  std::unique_ptr<Use> use_;
};

}  // namespace clora
