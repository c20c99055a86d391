// Builds GGUF files for tests, byte by byte and unchecked, so that invalid files are possible.
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

// Appends a 64-bit length and the characters.
void append_gguf_string(std::string& bytes, std::string_view text);

// Arrays as add_raw() of type 9 takes them; `type` is the number of GGUF's type T.
std::string gguf_texts(const std::vector<std::string>& texts);
template <class T>
std::string gguf_numbers(std::uint32_t type, const std::vector<T>& numbers) {
  std::string encoded;
  append_scalar(encoded, type);
  append_scalar(encoded, static_cast<std::uint64_t>(numbers.size()));
  for (const T number : numbers) append_scalar(encoded, number);
  return encoded;
}

// A file of version 3. The fields may be set until bytes() is called.
class GgufBytes {
 public:
  std::uint32_t version = 3;
  std::uint32_t alignment = 32;  // used for the layout; only add_integer writes the key
  std::int64_t extra_tensor_count = 0;
  std::int64_t extra_entry_count = 0;

  GgufBytes& add_text(std::string_view key, std::string_view value);
  GgufBytes& add_integer(std::string_view key, std::uint32_t value);
  GgufBytes& add_number(std::string_view key, float value);
  // Adds any value by its type number and encoded bytes.
  GgufBytes& add_raw(std::string_view key, std::uint32_t type, std::string_view encoded);

  // Dimensions are in GGUF's order, the fastest first. The data is placed at the next aligned
  // offset.
  GgufBytes& add_tensor(std::string_view name, std::vector<std::uint64_t> dimensions,
                        std::uint32_t type, std::string_view data);
  // The same with a given offset. The data is not stored.
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

struct OneLayerDims {
  std::uint32_t hidden_size, intermediate_size, context_length;
};
// The metadata of a llama model of one layer with two heads, without its tensors.
GgufBytes one_layer_llama(const OneLayerDims& dims, float norm_epsilon);

}  // namespace clora::test
