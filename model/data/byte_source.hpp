// ByteSource: the bytes of a file in order, in bounded memory: decompressed if the file's first
// bytes are those of gzip or zstd, whatever its name, and without UTF-8's byte order mark. Reads
// pipes too. Threads: one at a time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

// A stage that produces bytes: the file itself, or a decompressor.
class ByteStage {
 public:
  virtual ~ByteStage() = default;
  // Writes the next bytes to the beginning of `out` and returns their number; 0: the end.
  // REQUIRES: out is not empty. Errors: io, invalid_data for damaged data, naming the file.
  virtual std::size_t read(std::span<char> out) = 0;
};

// Decompressors of `input`. Files that were concatenated are decompressed one after the other. The
// memory of zstd is limited to that of its default window, 128 MiB.
std::unique_ptr<ByteStage> gzip_stage(std::unique_ptr<ByteStage> input, std::string path);
std::unique_ptr<ByteStage> zstd_stage(std::unique_ptr<ByteStage> input, std::string path);

class ByteSource {
 public:
  // Errors: not_found if the file does not exist or is a folder; io.
  explicit ByteSource(const std::filesystem::path& path);

  // The next bytes, valid until the next call; empty only at the end of the file. Errors: those of
  // ByteStage::read().
  std::string_view available();
  // REQUIRES: count <= available().size().
  void consume(std::size_t count) { begin_ += count; }

  const std::string& path() const noexcept { return path_; }

 private:
  void fill();

  std::string path_;
  std::unique_ptr<ByteStage> stage_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // the part of the buffer that was not consumed
};

}  // namespace clora
