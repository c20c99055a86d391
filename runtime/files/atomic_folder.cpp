#include "runtime/files/atomic_folder.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/fail.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartial = "partial";

// Drops trailing slashes: "a/b/" is the folder b in a.
fs::path without_final_slash(const fs::path& path) {
  const fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

fs::path temporary_name(const fs::path& path, std::string_view ending) {
  return path.parent_path() /
         fmt::format(".{}.{}.{}", path.filename().string(), ::getpid(), ending);
}

// Opens the folder and locks it; an invalid descriptor if another process holds the lock.
Descriptor locked_folder(const fs::path& path) {
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.value() >= 0 && ::flock(folder.value(), LOCK_EX | LOCK_NB) == 0) return folder;
  return Descriptor(-1);
}

// Removes temporary folders of killed processes. A folder that cannot be removed does no harm.
void remove_abandoned(const fs::path& path) {
  const std::string begin = fmt::format(".{}.", path.filename().string());
  std::error_code error;
  for (fs::directory_iterator entry(path.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(fmt::format(".{}", kPartial))) continue;
    std::error_code ignored;
    if (locked_folder(entry->path()).value() >= 0) fs::remove_all(entry->path(), ignored);
  }
}

fs::path created(const fs::path& path, const fs::path& partial) {
  remove_abandoned(path);
  std::error_code error;
  fs::create_directories(partial, error);
  if (error) fail(ErrorCode::io, "{}: cannot be written: {}", path.string(), error.message());
  return partial;
}

void require_done(const std::error_code& error, const std::filesystem::path& path) {
  if (error) fail(ErrorCode::io, "{}: cannot be written: {}", path.string(), error.message());
}

// Puts `partial` in the place of `path` and leaves the old folder as `partial`, which its owner, or
// a later one, removes. One system call where the file system can exchange two names; elsewhere two
// renames, of which the first is undone if the second fails.
void replace(const fs::path& path, const fs::path& partial) {
  if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) return;
  std::error_code error(errno, std::generic_category());
  if (errno != EINVAL && errno != ENOSYS) require_done(error, path);
  const fs::path old = temporary_name(path, "old");
  fs::rename(path, old, error);
  require_done(error, path);
  fs::rename(partial, path, error);
  std::error_code ignored;
  if (error) fs::rename(old, path, ignored);
  require_done(error, path);
  fs::remove_all(old, ignored);
}

}  // namespace

AtomicFolder::AtomicFolder(const std::filesystem::path& path, std::string mark)
    : path_(without_final_slash(path)),
      partial_(created(path_, temporary_name(path_, kPartial))),
      mark_(std::move(mark)),
      lock_(locked_folder(partial_)) {}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(partial_, ignored);
}

void AtomicFolder::commit() const {
  std::error_code error;
  const bool replaces = std::filesystem::exists(path_, error);
  if (replaces && !std::filesystem::exists(path_ / mark_, error)) {
    fail(ErrorCode::io, "{}: already exists without a {}; move it away", path_.string(), mark_);
  }
  if (replaces) {
    replace(path_, partial_);
  } else {
    fs::rename(partial_, path_, error);
    require_done(error, path_);
  }
}

void AtomicFolder::commit_files() const {
  std::error_code error;
  if (!fs::exists(path_, error)) {
    fs::rename(partial_, path_, error);
    return require_done(error, path_);
  }
  std::vector<fs::path> names;
  for (fs::directory_iterator entry(partial_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename() != mark_) names.push_back(entry->path().filename());
  }
  require_done(error, partial_);
  names.emplace_back(mark_);
  for (const fs::path& name : names) {
    fs::rename(partial_ / name, path_ / name, error);
    require_done(error, path_ / name);
  }
}

}  // namespace clora
