// Reading and writing of files: read-only mappings, and writes that leave either the complete new
// file or the complete old one.
//
// A mapping lives as long as its MappedFile and all copies of owner(); views of it are invalid
// after that. A MappedFile may be read from several threads. Behaviour is undefined if another
// program shortens a file while it is mapped.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace clora {

// A read-only memory mapping of a complete file.
class MappedFile {
 public:
  // Errors: not_found (no such file), io (cannot be read), invalid_file (a directory, or empty).
  static MappedFile open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() = default;

  std::span<const std::byte> bytes() const noexcept { return {data_.get(), size_}; }
  const std::filesystem::path& path() const noexcept { return path_; }
  // Keeps the mapping, and so every view of it, alive after this MappedFile is destroyed.
  std::shared_ptr<const void> owner() const noexcept { return data_; }

 private:
  MappedFile(std::filesystem::path path, const std::byte* data, std::size_t size);

  std::filesystem::path path_;
  std::shared_ptr<const std::byte> data_;
  std::size_t size_ = 0;
};

// A file under construction. It has a temporary name (".NAME.PID-N.partial") in the folder of
// `path`, and commit() renames it to `path`. If it is destroyed without commit(), it is removed and
// the old file is unchanged. A process that is killed leaves the temporary file; the next
// AtomicFile of the same path removes it.
class AtomicFile {
 public:
  // Errors: io (the folder is missing or not writable).
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends. Errors: io with the system's reason (disk full, file size limit, ...).
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  // Flushes the bytes to disk and renames the file to `path`, replacing an existing file.
  // Errors: io. REQUIRES: called once, nothing written after it.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

// Replaces the contents of `path` with the parts, one after the other. Errors: io; an existing old
// file is unchanged.
void write_file_atomically(const std::filesystem::path& path,
                           std::span<const std::span<const std::byte>> parts);
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace clora
