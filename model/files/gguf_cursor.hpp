// Reads the header of a GGUF file front to back. Every step is checked against the end of the file
// and against what a header may have, so that no count or length makes it read or keep more.
// Views that it gives point into the file. Private to model/.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>

#include "model/files/gguf.hpp"

namespace clora {

class GgufCursor {
 public:
  // Both outlive the cursor. Errors, of all below: invalid_file, naming the file and `what` or the
  // key.
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
  // A string of a length that messages can repeat: a key, or a tensor's name.
  std::string_view name(std::string_view what);

  GgufType type(std::string_view key);
  GgufValue value(GgufType type, std::string_view key) { return value(type, key, 0); }

  // Refuses `count` of `what` where there are more than `most`, or where the rest of the file
  // cannot hold them at `least` bytes each.
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
