// Writes GGUF files (version 3, little endian), the counterpart of model/files/gguf.hpp.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
// The metadata comes first, in the order of the set_...() calls, then the descriptions of the
// tensors in the given order, then their data in the same order. Files are written atomically
// (runtime/files/file.hpp), one tensor at a time in memory. Threads: one at a time for each object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "clora/model/files/gguf.hpp"

namespace clora {

// Keys and encoded values. Each function appends a key, or replaces the value of one that is there
// in its place.
class GgufMetadata {
 public:
  void set_text(std::string_view key, std::string_view text);
  void set_uint32(std::string_view key, std::uint32_t value);
  void set_float32(std::string_view key, float value);
  void set_boolean(std::string_view key, bool value);
  void set_texts(std::string_view key, std::span<const std::string> texts);
  void set_int32s(std::string_view key, std::span<const std::int32_t> values);
  void set_float32s(std::string_view key, std::span<const float> values);
  void set_booleans(std::string_view key, const std::vector<bool>& values);
  // A value of any type that was read from a file.
  void set(std::string_view key, const GgufValue& value);

  bool has(std::string_view key) const;
  void remove(std::string_view key);  // does nothing if there is none
  std::size_t size() const noexcept { return values_.size(); }

  // As in a file: for each the key, the number of the type, and the value.
  std::string encoded() const;

 private:
  void put(std::string_view key, GgufType type, std::string value);
  template <class T>
  void put_array(std::string_view key, GgufType element, std::span<const T> values);

  struct Value {
    std::string key;
    GgufType type = GgufType::uint8;
    std::string bytes;
  };
  std::vector<Value> values_;
};

// A tensor to be written. shape: row-major, [out, in] of a weight; the file has it reversed.
struct GgufTensorDescription {
  std::string name;
  DType type = DType::f32;
  Shape shape;
};

// Returns the bytes of a tensor by the index of its description.
using GgufTensorBytes = std::function<std::vector<std::byte>(std::size_t description)>;

// Calls make(i) once for each tensor in order, and frees its result before the next call. Errors:
// io; invalid_argument, naming the tensor: a name that occurs twice or has more than 63 bytes (the
// limit of ggml), a type that GGUF does not have, a row that is no multiple of the type's block,
// bytes that do not match the shape.
void write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata,
                std::span<const GgufTensorDescription> tensors, const GgufTensorBytes& make);

// The bytes of the file that write_gguf() would write.
std::uintmax_t gguf_file_bytes(const GgufMetadata& metadata,
                               std::span<const GgufTensorDescription> tensors);

}  // namespace clora
