#include "clora/runtime/files/file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "runtime/fail.hpp"
#include "runtime/memory/descriptor.hpp"

namespace clora {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

// The size of the open file, which must be regular and not empty.
std::size_t mappable_size(const std::filesystem::path& path, int descriptor) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0)
    fail(ErrorCode::io, "{}: cannot be read: {}", path.string(), reason(errno));
  if (S_ISDIR(facts.st_mode))
    fail(ErrorCode::invalid_file, "{}: a file is required, got a folder", path.string());
  if (!S_ISREG(facts.st_mode))
    fail(ErrorCode::invalid_file, "{}: a regular file is required", path.string());
  if (facts.st_size == 0) fail(ErrorCode::invalid_file, "{}: the file is empty", path.string());
  return static_cast<std::size_t>(facts.st_size);
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

constexpr std::string_view kTemporaryEnd = ".partial";

std::string temporary_begin(const std::filesystem::path& path) {
  return fmt::format(".{}.", path.filename().string());
}

// A name in the same folder, because a rename is atomic only within one file system.
std::filesystem::path temporary_name(const std::filesystem::path& path) {
  static std::atomic<unsigned> counter{0};
  return folder_of(path) / fmt::format("{}{}-{}{}", temporary_begin(path), ::getpid(),
                                       counter.fetch_add(1), kTemporaryEnd);
}

// Removes a temporary file whose writer was killed: a live writer holds a lock on it.
void remove_if_abandoned(const std::filesystem::path& temporary) noexcept {
  const Descriptor file(::open(temporary.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.value() < 0 || ::flock(file.value(), LOCK_EX | LOCK_NB) != 0) return;
  ::unlink(temporary.c_str());
}

// The same for all temporary files of `path`. A file that cannot be removed does no harm.
void remove_abandoned(const std::filesystem::path& path) {
  const std::string begin = temporary_begin(path);
  std::error_code error;
  std::filesystem::directory_iterator entry(folder_of(path), error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.starts_with(begin) && name.ends_with(kTemporaryEnd)) {
      remove_if_abandoned(entry->path());
    }
  }
}

// Creates the file `temporary` and locks it; -1 with errno on failure. Another process that removes
// abandoned files may delete it before it is locked; it is then created again.
int make_locked(const std::filesystem::path& temporary) {
  for (;;) {
    const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) return -1;
    struct stat facts {};
    // On a file system without locks, other processes cannot remove the file either.
    if (::flock(file, LOCK_EX) != 0 || ::fstat(file, &facts) != 0 || facts.st_nlink > 0) {
      return file;
    }
    ::close(file);
  }
}

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.value() < 0) {
    if (errno == ENOENT || errno == ENOTDIR)
      fail(ErrorCode::not_found, "{}: no such file", path.string());
    fail(ErrorCode::io, "{}: cannot be opened: {}", path.string(), reason(errno));
  }
  const std::size_t size = mappable_size(path, file.value());
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (data == MAP_FAILED)
    fail(ErrorCode::io, "{}: cannot be mapped: {}", path.string(), reason(errno));
  return MappedFile(path, static_cast<const std::byte*>(data), size);
}

MappedFile::MappedFile(std::filesystem::path path, const std::byte* data, std::size_t size)
    : path_(std::move(path)),
      data_(data,
            [size](const std::byte* begin) { ::munmap(const_cast<std::byte*>(begin), size); }),
      size_(size) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::move(other.data_)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(temporary_name(path_)) {
  remove_abandoned(path_);
  descriptor_ = make_locked(temporary_);
  if (descriptor_ < 0)
    fail(ErrorCode::io, "{}: cannot be written: {}", path_.string(), reason(errno));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      fail(ErrorCode::io, "{}: writing failed: {}; the old file, if any, is kept", path_.string(),
           reason(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::commit() {
  require(descriptor_ >= 0, "{}: commit() may be called once", path_.string());
  // Some file systems report a full disk only here.
  if (::fsync(descriptor_) != 0)
    fail(ErrorCode::io, "{}: writing failed: {}; the old file, if any, is kept", path_.string(),
         reason(errno));
  // The lock is held until the file is renamed; otherwise another writer would treat the temporary
  // file as abandoned.
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail(ErrorCode::io, "{}: cannot be replaced: {}", path_.string(), reason(errno));
  ::close(std::exchange(descriptor_, -1));
  temporary_.clear();
  // The rename itself must survive a power failure. A folder that cannot be synced is not an error.
  const Descriptor folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.value() >= 0) ::fsync(folder.value());
}

void write_file_atomically(const std::filesystem::path& path,
                           std::span<const std::span<const std::byte>> parts) {
  AtomicFile file(path);
  for (const auto part : parts) file.write(part);
  file.commit();
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  write_file_atomically(path, std::span(&bytes, 1));
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace clora
