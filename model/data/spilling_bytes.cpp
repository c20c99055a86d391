#include "model/data/spilling_bytes.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "runtime/environment_variable.hpp"
#include "runtime/errno_text.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

constexpr std::size_t kFirstCapacity = std::size_t{64} << 10U;
constexpr std::size_t kMaxGrowth = std::size_t{64} << 20U;  // wastes no more of the disk than this

// Opens a file without a name. The fallback is for file systems without O_TMPFILE.
int open_unnamed(const std::filesystem::path& folder) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  std::string name = (folder / "clora-data-XXXXXX").string();
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

// Returns 0, or the error's number.
int write_all(int file, const std::byte* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t written = ::write(file, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes += written;
    count -= static_cast<std::size_t>(written);
  }
  return 0;
}

}  // namespace

SpillingBytes::~SpillingBytes() {
  if (data_ != nullptr) ::munmap(data_, capacity_);
  if (file_ >= 0) ::close(file_);
}

void SpillingBytes::fail_io(const char* what, int error) const {
  fail(ErrorCode::io,
       "records: a temporary file in '{}' cannot be {}: {}; a data set that exceeds its memory "
       "limit needs about 1.3 times its size there; set TMPDIR to a folder with more space, or "
       "raise the memory limit",
       folder_.string(), what, errno_text(error));
}

// Allocates the blocks, since a store to a mapped page without one would be fatal on a full disk.
void SpillingBytes::extend_file(std::size_t bytes) const {
  const int error = ::posix_fallocate(file_, 0, static_cast<off_t>(bytes));
  if (error != 0) fail_io("extended", error);
}

void SpillingBytes::grow(std::size_t capacity) {
  if (is_spilled()) extend_file(capacity);
  void* const data =
      data_ != nullptr ? ::mremap(data_, capacity_, capacity, MREMAP_MAYMOVE)
                       : ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE,
                                is_spilled() ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file_, 0);
  if (data == MAP_FAILED) {
    fail(ErrorCode::out_of_memory, "records: {} bytes of address space are not available: {}",
         capacity, errno_text(errno));
  }
  data_ = static_cast<std::byte*>(data);
  capacity_ = capacity;
}

void SpillingBytes::append(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (bytes.size() > capacity_ - size_) {
    std::size_t capacity = std::max(capacity_, kFirstCapacity);
    while (capacity - size_ < bytes.size()) capacity += std::min(capacity, kMaxGrowth);
    grow(capacity);
  }
  std::memcpy(data_ + size_, bytes.data(), bytes.size());
  size_ += bytes.size();
}

// The bytes are written and not copied to the mapping, which would double the memory in use.
void SpillingBytes::spill(const std::filesystem::path& folder) {
  folder_ = folder;
  file_ = open_unnamed(folder);
  if (file_ < 0) fail_io("created", errno);
  if (const int error = write_all(file_, data_, size_); error != 0) fail_io("written", error);
  if (data_ == nullptr) return;
  ::munmap(data_, capacity_);
  data_ = nullptr;
  grow(capacity_);
}

void SpillingBytes::release() const noexcept {
  if (is_spilled() && data_ != nullptr) ::madvise(data_, capacity_, MADV_DONTNEED);
}

std::filesystem::path folder_for_large_files() {
  const std::string chosen = environment_variable("TMPDIR");
  if (!chosen.empty()) return chosen;
  if (::access("/var/tmp", W_OK | X_OK) == 0) return "/var/tmp";
  return std::filesystem::temp_directory_path();
}

}  // namespace clora
