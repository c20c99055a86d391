// GGUF files (versions 2 and 3, little endian): metadata and tensors, read from a mapping.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
// A GgufFile is a model in one file, or in all files into which it is split
// (model/files/gguf_split.hpp). It owns their mappings; texts, values and tensor bytes are views
// into them and must not outlive them. open() checks all lengths, counts and offsets against the
// file, so reading a value or a tensor later cannot leave the mapping. Immutable after open():
// thread-safe for reading. Tensor bytes may be unaligned for their type: copy, do not cast.
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

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/memory/dtype.hpp"
#include "clora/runtime/memory/shape.hpp"

namespace clora {

// The numbers are those of the file format.
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

// One metadata value, still encoded. Each accessor returns nullopt if the value is of another kind:
// integers of every width are one kind, floats another.
struct GgufValue {
  GgufType type = GgufType::uint8;
  GgufType element = GgufType::uint8;  // of an array
  std::uint64_t count = 1;             // elements of an array
  std::span<const std::byte> bytes;    // of a string: its characters; of an array: its elements

  std::optional<std::int64_t> integer() const;  // also nullopt for a uint64 above int64
  std::optional<double> number() const;         // integers count as numbers
  std::optional<bool> boolean() const;
  std::optional<std::string_view> text() const;

  // Arrays; integers() and floats() only if every element is one.
  std::optional<std::vector<GgufValue>> values() const;  // elements of any type, including arrays
  std::optional<std::vector<std::string_view>> texts() const;
  std::optional<std::vector<std::int64_t>> integers() const;
  std::optional<std::vector<float>> floats() const;

  // For listings: the value, or a description of the array ("[49152 string]").
  std::string summary() const;
};

struct GgufTensor {
  std::string_view name;
  std::uint32_t type_number = 0;  // ggml's
  std::optional<DType> type;      // nullopt: an unsupported type, and `bytes` is empty
  Shape shape;                    // row-major: GGUF's dimensions reversed, [out, in] for a weight
  std::span<const std::byte> bytes;
  std::size_t part = 0;  // index into GgufFile::parts()
};

// Returns "Q4_0", "IQ2_XS", ...; "type 99" for an unknown number.
std::string ggml_type_name(std::uint32_t type_number);
// Returns nullopt for an unsupported type.
std::optional<DType> dtype_of_ggml(std::uint32_t type_number);
// Returns ggml's number; nullopt for a type that GGUF does not have.
std::optional<std::uint32_t> ggml_type_of(DType type);

class GgufFile {
 public:
  struct Entry {
    std::string_view key;
    GgufValue value;
  };

  // Opens the file and, if it is a part of a split model, all parts. Errors: those of
  // MappedFile::open; not_found (a missing part); invalid_file (not a GGUF file, truncated, counts
  // or lengths past the end, overlapping tensors, duplicate names, parts that disagree);
  // unsupported (version 1, big endian).
  static GgufFile open(const std::filesystem::path& path);

  std::uint32_t version() const noexcept { return version_; }
  // The file with the metadata: the first part.
  const std::filesystem::path& path() const noexcept { return parts_.front().path(); }
  // A copy of a part's owner() keeps the part's tensors alive, and that of the first the metadata.
  const std::vector<MappedFile>& parts() const noexcept { return parts_; }
  const MappedFile& part_of(const GgufTensor& tensor) const { return parts_[tensor.part]; }

  // In the order of the file, or of the parts.
  const std::vector<Entry>& metadata() const noexcept { return metadata_; }
  const std::vector<GgufTensor>& tensors() const noexcept { return tensors_; }

  // Return nullptr if there is none.
  const GgufValue* find_value(std::string_view key) const;
  const GgufTensor* find_tensor(std::string_view name) const;

  // Return a scalar by key; nullopt if the key is absent. Errors: invalid_file if the value is of
  // another kind.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;

 private:
  explicit GgufFile(MappedFile file) { parts_.push_back(std::move(file)); }
  static GgufFile open_part(const std::filesystem::path& path);
  static GgufFile open_split(const GgufFile& opened);
  void add_part(GgufFile part);

  std::vector<MappedFile> parts_;
  std::uint32_t version_ = 0;
  std::vector<Entry> metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> value_index_;
  std::unordered_map<std::string_view, std::size_t> tensor_index_;
};

}  // namespace clora
