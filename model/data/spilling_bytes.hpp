// SpillingBytes: bytes that grow at their end, first in memory and, after spill(), in a temporary
// file that is mapped and has no name, so that it disappears with the process. The system may write
// the pages of the file back and reuse their memory at any time; release() gives them up at once.
// Threads: any number of readers, or one writer.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace clora {

class SpillingBytes {
 public:
  SpillingBytes() = default;
  ~SpillingBytes();
  SpillingBytes(const SpillingBytes&) = delete;
  SpillingBytes& operator=(const SpillingBytes&) = delete;

  // Invalidates data(). Errors: out_of_memory; io if the file cannot grow, with the way out.
  void append(std::span<const std::byte> bytes);

  // Moves the bytes to a temporary file in `folder`. Invalidates data(). Errors: io.
  // REQUIRES: !is_spilled().
  void spill(const std::filesystem::path& folder);
  bool is_spilled() const noexcept { return file_ >= 0; }

  // Gives up the memory of a spilled store; data() stays valid and is read again from the file.
  void release() const noexcept;

  const std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  void grow(std::size_t capacity);
  void extend_file(std::size_t bytes) const;
  [[noreturn]] void fail_io(const char* what, int error) const;

  std::byte* data_ = nullptr;  // a mapping of capacity_ bytes
  std::size_t size_ = 0, capacity_ = 0;
  int file_ = -1;
  std::filesystem::path folder_;
};

// Returns the folder for temporary files that may be large: TMPDIR if it is set, else /var/tmp,
// which unlike /tmp is not in memory on common systems, else the system's folder.
std::filesystem::path folder_for_large_files();

}  // namespace clora
