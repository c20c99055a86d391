// Builds GGUF files for tests, byte by byte and without checks, so that broken ones can be made
// too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace clora::test {

// Appends the little-endian bytes of a scalar.
template <class T>
void append_scalar(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// A 64-bit length and the characters.
void append_gguf_string(std::string& bytes, std::string_view text);

// A file of version 3; fields may be set to anything before bytes() is asked for.
class GgufBytes {
 public:
  std::uint32_t version = 3;
  std::uint32_t alignment = 32;  // used for the layout; the key is written only by add_integer
  std::int64_t extra_tensor_count = 0;
  std::int64_t extra_entry_count = 0;

  GgufBytes& add_text(std::string_view key, std::string_view value);
  GgufBytes& add_integer(std::string_view key, std::uint32_t value);
  GgufBytes& add_number(std::string_view key, float value);
  // Any value: its type number and encoded bytes.
  GgufBytes& add_raw(std::string_view key, std::uint32_t type, std::string_view encoded);

  // Dimensions in GGUF's order, the fastest first. The data is placed at the next aligned offset.
  GgufBytes& add_tensor(std::string_view name, std::vector<std::uint64_t> dimensions,
                        std::uint32_t type, std::string_view data);
  // The same with an offset of one's own; the data is not stored.
  GgufBytes& describe_tensor(std::string_view name, std::vector<std::uint64_t> dimensions,
                             std::uint32_t type, std::uint64_t offset);

  std::string bytes() const;

 private:
  std::uint64_t entries_ = 0;
  std::uint64_t tensors_ = 0;
  std::string entry_bytes_;
  std::string tensor_bytes_;
  std::string data_;
};

}  // namespace clora::test
