#include "clora/runtime/device/driver_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "runtime/errno_text.hpp"
#include "runtime/fail.hpp"
#include "runtime/files/checksum_list.hpp"
#include "runtime/files/private_folder.hpp"
#include "runtime/memory/descriptor.hpp"
#include "runtime/programs/locked_mark.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "POCL_CACHE_DIR";

// Files that pocl rewrites in later processes and never builds anything from.
bool is_never_executed(const fs::path& path) {
  return path.filename() == "build.log" || path.filename() == "last_accessed";
}

// pocl's temporary files are in the top-level folder, all others in a folder per program.
bool is_temporary(const fs::path& path) { return !path.has_parent_path(); }

Descriptor open_lock(const fs::path& path) {
  Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock.value() < 0) {
    fail(ErrorCode::io, "{}: cannot be opened: {}", path.string(), errno_text(errno));
  }
  return lock;
}

void wait_for_lock(const Descriptor& lock, int kind) {
  while (::flock(lock.value(), kind) != 0) {
    if (errno != EINTR) {
      fail(ErrorCode::io, "cannot lock the driver's cache: {}", errno_text(errno));
    }
  }
}

// Removes the marks of dead processes from the folder; returns whether one of them recorded a
// crash. A killed process does not count: a kill does not affect the files.
bool take_crashes(const fs::path& folder) {
  bool crashed = false;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::optional<DeadMark> dead = take_dead_mark(at->path());
    if (!dead) continue;
    crashed = crashed || !dead->content.empty();
    std::error_code ignored;
    fs::remove(at->path(), ignored);
  }
  return crashed;
}

// The start time makes the name unique: in a container every start may have the same process ID.
std::string name_of_this_process() {
  return fmt::format("{}-{:x}", ::getpid(),
                     std::chrono::system_clock::now().time_since_epoch().count());
}

}  // namespace

// This process's use of the folder.
class DriverCache::Use {
 public:
  Use(fs::path folder, const Hooks& hooks, std::uintmax_t limit_bytes)
      : folder_(std::move(folder)), lock_(lock_in(folder_)) {
    const bool alone = ::flock(lock_.value(), LOCK_EX | LOCK_NB) == 0;
    if (!alone) wait_for_lock(lock_, LOCK_SH);
    clean(alone, hooks, limit_bytes);
    if (alone) wait_for_lock(lock_, LOCK_SH);
    make_private_folder(kernels());
    make_private_folder(processes());
    mark_ = std::make_unique<LockedMark>(processes() / name_of_this_process(), "");
    if (::setenv(kVariable, kernels().c_str(), 0) != 0) {
      fail(ErrorCode::io, "cannot set {} in the environment: {}", kVariable, errno_text(errno));
    }
  }

  int crash_descriptor() const noexcept { return mark_->descriptor(); }

  // No-op in a child process created by fork(), which has a copy of the object.
  void end() {
    if (::getpid() != process_) return;
    ::unsetenv(kVariable);
    ChecksumList list = ChecksumList::read(checksums());
    std::size_t changes = 0;
    for (const std::string& path : list.paths()) {
      if (fs::exists(kernels() / path)) continue;
      list.remove(path);
      ++changes;
    }
    for (const std::string& path : files_below(kernels())) {
      if (is_never_executed(path) || is_temporary(path)) continue;
      if (list.has(path) && !is_newer(path, begun_)) continue;
      if (!list.matches(kernels(), path)) changes += list.add(kernels(), path) ? 1 : 0;
    }
    if (changes > 0) list.write(checksums());
  }

 private:
  static Descriptor lock_in(const fs::path& folder) {
    make_private_folder(folder);
    return open_lock(folder / "lock");
  }
  fs::path kernels() const { return folder_ / "kernels"; }
  fs::path processes() const { return folder_ / "processes"; }
  fs::path checksums() const { return folder_ / "checksums"; }

  // alone: no other process uses the folder.
  void clean(bool alone, const Hooks& hooks, std::uintmax_t limit_bytes) {
    const ChecksumList list = ChecksumList::read(checksums());
    if (alone && take_crashes(processes())) {
      clear();
      hooks.log_message(LogLevel::warning,
                        fmt::format("driver cache: {}: a process crashed while using "
                                    "it; the driver recompiles the kernels",
                                    folder_.string()));
    } else if (alone && list.bytes() > limit_bytes) {
      clear();
    } else if (const std::size_t damaged = remove_damaged(list, alone); damaged > 0) {
      hooks.log_message(
          LogLevel::warning,
          fmt::format(
              "driver cache: {}: removed damaged files ({}); the driver recompiles their kernels",
              folder_.string(), damaged));
    }
  }

  // REQUIRES: no other process uses the folder.
  void clear() {
    fs::remove(checksums());
    fs::remove_all(kernels());
  }

  // If other processes use the folder, files newer than the checksums are kept, because they may be
  // in use. Two processes that compile the same kernel at once write its file twice, and the files
  // may differ.
  std::size_t remove_damaged(const ChecksumList& list, bool alone) {
    std::error_code absent;
    const fs::file_time_type listed = fs::last_write_time(checksums(), absent);
    std::size_t damaged = 0;
    for (const std::string& path : files_below(kernels())) {
      if (is_never_executed(path) || list.matches(kernels(), path)) continue;
      if (!alone && (!list.has(path) || is_newer(path, listed))) continue;
      fs::remove(kernels() / path);
      damaged += list.has(path) ? 1 : 0;
    }
    return damaged;
  }

  // File times come from a clock that lags by a few milliseconds.
  bool is_newer(const std::string& path, fs::file_time_type than) const {
    std::error_code gone;
    const fs::file_time_type written = fs::last_write_time(kernels() / path, gone);
    return !gone && written > than - std::chrono::milliseconds(100);
  }

  fs::path folder_;
  Descriptor lock_;
  std::unique_ptr<LockedMark> mark_;
  pid_t process_ = ::getpid();
  fs::file_time_type begun_ = fs::file_time_type::clock::now();
};

DriverCache::DriverCache(const fs::path& cache_folder, const Hooks& hooks,
                         std::uintmax_t limit_bytes) noexcept {
  if (cache_folder.empty() || std::getenv(kVariable) != nullptr) return;
  try {
    use_ = std::make_unique<Use>(fs::absolute(cache_folder / "pocl"), hooks, limit_bytes);
  } catch (const Error& error) {
    // A folder that cannot be created is not worth a warning: the driver may not be pocl at all.
    const bool unsafe = error.code() == ErrorCode::invalid_file;
    hooks.log_message(unsafe ? LogLevel::warning : LogLevel::info,
                      fmt::format("driver cache: {}; pocl uses its default folder", error.what()));
  } catch (const std::exception& error) {
    hooks.log_message(LogLevel::info,
                      fmt::format("driver cache: {}; pocl uses its default folder", error.what()));
  }
}

int DriverCache::crash_descriptor() const noexcept {
  return active() ? use_->crash_descriptor() : -1;
}

DriverCache::~DriverCache() {
  if (use_ == nullptr) return;
  try {
    use_->end();
  } catch (const std::exception&) {  // the next process compiles the kernels again
  }
}

}  // namespace clora
