#include "tools/clora/training/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "runtime/errno_text.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// The process id stored in the file, for a message; "" if there is none.
std::string holder_of(int descriptor) {
  std::array<char, 24> text{};
  const ssize_t got = ::pread(descriptor, text.data(), text.size(), 0);
  std::string digits;
  for (ssize_t i = 0; i < got && text[static_cast<std::size_t>(i)] >= '0' &&
                      text[static_cast<std::size_t>(i)] <= '9';
       ++i) {
    digits += text[static_cast<std::size_t>(i)];
  }
  return digits.empty() ? "" : fmt::format(" (process {})", digits);
}

[[noreturn]] void fail_in_use(const std::filesystem::path& folder, std::string_view who,
                              int descriptor) {
  fail(ErrorCode::io,
       "{}: '{}' is in use by another training run{}; wait for it to end or choose another "
       "--adapter-out",
       who, folder.string(), holder_of(descriptor));
}

// Whether the open file is still the file at `path`: the previous holder removes it.
bool is_in_place(const std::filesystem::path& path, int descriptor) {
  struct stat open_file {};
  struct stat named {};
  return ::fstat(descriptor, &open_file) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

Descriptor locked_file(const std::filesystem::path& path, std::string_view who) {
  for (;;) {
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (file.value() < 0) {
      fail(ErrorCode::io, "{}: '{}' cannot be written: {}", who, path.string(), errno_text(errno));
    }
    const bool locked = ::flock(file.value(), LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno == EWOULDBLOCK) fail_in_use(path.parent_path(), who, file.value());
    if (!locked || is_in_place(path, file.value())) return file;
  }
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder, std::string_view who)
    : file_(folder / kLockFile), descriptor_(locked_file(file_, who)) {
  const std::string process = fmt::format("{}\n", ::getpid());
  // The content is used in messages only, so a full disk does not prevent locking.
  if (::ftruncate(descriptor_.value(), 0) == 0) {
    [[maybe_unused]] const ssize_t written =
        ::pwrite(descriptor_.value(), process.data(), process.size(), 0);
  }
}

FolderLock::~FolderLock() { ::unlink(file_.c_str()); }

void require_unlocked(const std::filesystem::path& folder, std::string_view who) {
  const Descriptor file(::open((folder / kLockFile).c_str(), O_RDONLY | O_CLOEXEC));
  if (file.value() < 0 || ::flock(file.value(), LOCK_SH | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) fail_in_use(folder, who, file.value());
}

}  // namespace clora
