// DriverCache: pocl's own cache of compiled kernels, in a folder whose files carry checksums.
//
// pocl reads back what earlier processes wrote without checking it: a truncated file ends the
// process with a failed assertion, a changed one may compute something else. A DriverCache compares
// every file with its checksum before the driver is loaded, removes what is not as it was left, and
// has pocl use the folder. A process that crashed while it used the folder costs the whole cache,
// where the program notes crashes: a file may have been wrong when it got its checksum.
//
//   FOLDER/lock             flock: shared by processes that use the folder, exclusive for cleaning
//   FOLDER/checksums        digest, size and path of each file in kernels/, and a digest of these
//   FOLDER/processes/PID-T  a process that uses the folder (runtime/locked_mark.hpp)
//   FOLDER/kernels/         POCL_CACHE_DIR; its files are pocl's
//
// A file gets its checksum when the process that made it ends in an orderly way; those of a process
// that was killed are removed by the next one that is alone in the folder. Other drivers guard
// their caches themselves. Threads: the constructor changes the environment of the process
// (setenv), which no other thread may read meanwhile. So make one in main(), before there are other
// threads and before the first call of OpenCL, and let it go after the last Context.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "runtime/hooks.hpp"

namespace clora {

class DriverCache {
 public:
  static constexpr std::uintmax_t kLimitBytes = std::uintmax_t{256} << 20U;

  // Uses `cache_folder`/pocl (default_cache_folder() in runtime/context.hpp); does nothing where
  // cache_folder is empty or POCL_CACHE_DIR is set. Where others can write to the folder, or it
  // cannot be made, pocl keeps its default one; that and what was removed is told through
  // hooks.log. Beyond limit_bytes the cache is emptied.
  explicit DriverCache(const std::filesystem::path& cache_folder, const Hooks& hooks = {},
                       std::uintmax_t limit_bytes = kLimitBytes) noexcept;
  // Gives the new files their checksums.
  ~DriverCache();
  DriverCache(const DriverCache&) = delete;
  DriverCache& operator=(const DriverCache&) = delete;

  // Whether pocl uses the folder.
  bool active() const noexcept { return use_ != nullptr; }

  // A descriptor to which a program's handler of SIGSEGV and the like writes a byte, if it has one;
  // -1 where the folder is not used.
  int crash_descriptor() const noexcept;

 private:
  class Use;
  std::unique_ptr<Use> use_;
};

}  // namespace clora
