// GGUF files (versions 2 and 3, little endian): metadata and tensors, read from a mapping.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
// A GgufFile owns its mapping; texts, values and tensor bytes are views into it and die with it.
// All lengths, counts and offsets are checked against the file when it is opened, so reading a
// value or a tensor later cannot leave the mapping. Immutable after open(): safe to read from many
// threads. Tensor bytes may be unaligned for their type: copy, do not cast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/dtype.hpp"
#include "runtime/file.hpp"
#include "runtime/shape.hpp"

namespace clora {

// The numbers are the file format's.
enum class GgufType : std::uint32_t {
  uint8,
  int8,
  uint16,
  int16,
  uint32,
  int32,
  float32,
  boolean,
  string,
  array,
  uint64,
  int64,
  float64,
};

std::string_view name_of(GgufType type);

// One metadata value, still encoded. Each accessor gives nothing where the value is of another
// kind: integers of every width are one kind, floats another.
struct GgufValue {
  GgufType type = GgufType::uint8;
  GgufType element = GgufType::uint8;  // of an array
  std::uint64_t count = 1;             // elements of an array
  std::span<const std::byte> bytes;    // of a string: its characters; of an array: its elements

  std::optional<std::int64_t> integer() const;  // nothing, too, for a uint64 above int64
  std::optional<double> number() const;         // integers count as numbers
  std::optional<bool> boolean() const;
  std::optional<std::string_view> text() const;

  // Arrays; integers() and floats() only where every element is one.
  std::optional<std::vector<GgufValue>> values() const;  // elements of any type, arrays too
  std::optional<std::vector<std::string_view>> texts() const;
  std::optional<std::vector<std::int64_t>> integers() const;
  std::optional<std::vector<float>> floats() const;

  // For listings: the value, or what the array holds ("[49152 string]").
  std::string summary() const;
};

struct GgufTensor {
  std::string_view name;
  std::uint32_t type_number = 0;  // ggml's
  std::optional<DType> type;      // nothing: a type that is not read here, `bytes` is then empty
  Shape shape;                    // row-major: GGUF's dimensions reversed, [out, in] for a weight
  std::span<const std::byte> bytes;
};

// "Q4_0", "IQ2_XS", ...; "type 99" where the number is not known.
std::string ggml_type_name(std::uint32_t type_number);
// Nothing for a type that is not read here.
std::optional<DType> dtype_of_ggml(std::uint32_t type_number);

class GgufFile {
 public:
  struct Entry {
    std::string_view key;
    GgufValue value;
  };

  // Errors: those of MappedFile::open; invalid_file (not a GGUF, truncated, counts or lengths past
  // the end, overlapping tensors, duplicate names); unsupported (version 1, big endian).
  static GgufFile open(const std::filesystem::path& path);

  std::uint32_t version() const noexcept { return version_; }
  const std::filesystem::path& path() const noexcept { return file_.path(); }
  // Keeps the mapping, and so every view of it, alive.
  std::shared_ptr<const void> mapping() const noexcept { return file_.owner(); }

  // In the file's order.
  const std::vector<Entry>& metadata() const noexcept { return metadata_; }
  const std::vector<GgufTensor>& tensors() const noexcept { return tensors_; }

  // nullptr where there is none.
  const GgufValue* find_value(std::string_view key) const;
  const GgufTensor* find_tensor(std::string_view name) const;

  // A scalar by key; nothing where the key is absent. Errors: invalid_file where it holds another
  // kind of value.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;

 private:
  explicit GgufFile(MappedFile file) : file_(std::move(file)) {}

  MappedFile file_;
  std::uint32_t version_ = 0;
  std::vector<Entry> metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> value_index_;
  std::unordered_map<std::string_view, std::size_t> tensor_index_;
};

}  // namespace clora
