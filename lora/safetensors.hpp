// safetensors files: reader and writer. Format: https://github.com/huggingface/safetensors
//
// It lies in lora/ because adapters are the first to need it and lora/ sees nothing of model/;
// model weights and checkpoints use it from above.
//
// A SafetensorsFile owns its mapping; every view it gives dies with it. Everything is checked in
// open(): afterwards a view cannot leave the file. Immutable: safe to read from many threads.
// Tensor bytes may be unaligned for their type (the header may have any length): copy, do not cast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/dtype.hpp"
#include "runtime/file.hpp"
#include "runtime/shape.hpp"

namespace clora {

// A tensor to write, or one found in a file (then `bytes` points into the mapping).
struct StoredTensor {
  std::string name;
  DType type = DType::f32;
  Shape shape;
  std::span<const std::byte> bytes;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

class SafetensorsFile {
 public:
  // What the header says of one tensor, in whatever type it is.
  struct Entry {
    std::string name;
    std::string type_name;      // the file's own: "F32", "I64", ...
    std::optional<DType> type;  // nothing: not read here
    std::vector<std::int64_t> dimensions;
    std::span<const std::byte> bytes;
  };

  // Errors: those of MappedFile::open; invalid_file (header longer than the file, bad JSON, unknown
  // type, a tensor outside the data or of another size than its shape says, tensors that overlap,
  // a name twice). Gaps between tensors are allowed.
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return file_.path(); }
  // Keeps the mapping, and so every tensor's bytes, alive.
  std::shared_ptr<const void> mapping() const noexcept { return file_.owner(); }
  const SafetensorsMetadata& metadata() const noexcept { return metadata_; }
  // Sorted by name.
  const std::vector<Entry>& entries() const noexcept { return entries_; }
  std::vector<std::string> names() const;

  // Nothing where there is no tensor of this name. Errors: unsupported where there is one of a type
  // (I64, F8_E4M3, ...) or rank (above 4) that is not read here.
  std::optional<StoredTensor> find(std::string_view name) const;

 private:
  explicit SafetensorsFile(MappedFile file) : file_(std::move(file)) {}

  MappedFile file_;
  SafetensorsMetadata metadata_;
  std::vector<Entry> entries_;
};

// Writes the tensors, the widest types first so that each lies aligned, else in the given order.
// Atomic (runtime/file.hpp). Errors: io; invalid_argument (a name twice, a type that the format
// does not have, bytes that do not fit the shape).
void write_safetensors(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                       const SafetensorsMetadata& metadata = {});

// The same for tensors that are made one at a time: `bytes` of the descriptions is ignored and
// make(i) is called once for each, in the order of writing; its result is dropped before the next.
void write_safetensors(const std::filesystem::path& path,
                       std::span<const StoredTensor> descriptions,
                       const SafetensorsMetadata& metadata,
                       const std::function<std::vector<std::byte>(std::size_t description)>& make);

}  // namespace clora
