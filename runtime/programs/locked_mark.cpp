#include "runtime/programs/locked_mark.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <utility>

#include "runtime/errno_text.hpp"
#include "runtime/fail.hpp"
#include "runtime/files/file_contents.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

fs::path partial_of(const fs::path& path) { return path.string() + std::string(kPartialEnd); }

bool lock_at_once(const Descriptor& file) {
  return file.value() >= 0 && ::flock(file.value(), LOCK_EX | LOCK_NB) == 0;
}

// Removes a mark that an earlier process left under this name: process IDs are reused, in a
// container soon.
void remove_if_abandoned(const fs::path& path) {
  const Descriptor file = open_to_read(path);
  if (lock_at_once(file)) ::unlink(path.c_str());
}

Descriptor make(const fs::path& path, std::string_view content) {
  remove_if_abandoned(path);
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const bool locked = file.value() >= 0 && ::flock(file.value(), LOCK_EX) == 0;
  if (!locked || ::write(file.value(), content.data(), content.size()) !=
                     static_cast<ssize_t>(content.size())) {
    const int error = errno;
    if (file.value() >= 0) ::unlink(path.c_str());
    fail(ErrorCode::io, "{}: cannot be written: {}", path.string(), errno_text(error));
  }
  return file;
}

}  // namespace

LockedMark::LockedMark(fs::path path, std::string_view content)
    : path_(std::move(path)), file_(make(partial_of(path_), content)) {
  // The mark is renamed after it is locked: an unlocked mark would count as a dead process's.
  if (::rename(partial_of(path_).c_str(), path_.c_str()) != 0) {
    fail(ErrorCode::io, "{}: cannot be created: {}", path_.string(), errno_text(errno));
  }
}

LockedMark::~LockedMark() { ::unlink(path_.c_str()); }  // before the descriptor releases the lock

std::optional<DeadMark> take_dead_mark(const fs::path& path) {
  if (path.extension() == kPartialEnd) return std::nullopt;
  Descriptor file = open_to_read(path);
  if (!lock_at_once(file)) return std::nullopt;
  struct stat facts {};
  if (::fstat(file.value(), &facts) != 0 || facts.st_nlink == 0) return std::nullopt;
  std::string content = read_text_contents(path, file);
  return DeadMark{std::move(file), std::move(content)};
}

}  // namespace clora
