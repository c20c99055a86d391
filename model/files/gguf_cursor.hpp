// Reads the header of a GGUF file from front to back. Every read is checked against the end of the
// file and against the limits of a header, so no count or length can cause excessive reads or
// allocations. Returned views point into the file. Private to model/.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>

#include "clora/model/files/gguf.hpp"

namespace clora {

class GgufCursor {
 public:
  // Both arguments must outlive the cursor. Errors, of all functions below: invalid_file, naming
  // the file and `what` or the key.
  GgufCursor(const std::filesystem::path& path, std::span<const std::byte> file)
      : path_(path), file_(file) {}

  std::uint64_t position() const noexcept { return position_; }

  std::span<const std::byte> bytes(std::uint64_t count, std::string_view what);

  template <class T>
  T scalar(std::string_view what) {
    T value;
    std::memcpy(&value, bytes(sizeof value, what).data(), sizeof value);
    return value;
  }

  std::string_view string(std::string_view what);
  // Returns a string short enough to be quoted in messages: a key, or a tensor's name.
  std::string_view name(std::string_view what);

  GgufType type(std::string_view key);
  GgufValue value(GgufType type, std::string_view key) { return value(type, key, 0); }

  // Throws if `count` of `what` is above `most`, or if the rest of the file cannot hold that many
  // of at least `least` bytes each.
  void check_count(std::uint64_t count, std::uint64_t least, std::uint64_t most,
                   std::string_view what) const;

 private:
  std::uint64_t remaining() const noexcept { return file_.size() - position_; }
  GgufValue value(GgufType type, std::string_view key, int depth);
  void read_array(GgufValue& array, std::string_view key, int depth);

  const std::filesystem::path& path_;
  std::span<const std::byte> file_;
  std::uint64_t position_ = 0;
};

}  // namespace clora
