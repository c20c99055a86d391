// safetensors files: reader and writer. Format: https://github.com/huggingface/safetensors
//
// It is in lora/ because adapters are the lowest layer that needs it, and lora/ does not depend on
// model/; model weights and checkpoints use it from above.
//
// A SafetensorsFile owns its mapping; views into it are invalid after its destruction. open()
// checks everything, so no view can point outside the file. Immutable: safe to read from many
// threads. Tensor bytes may be unaligned for their type (the header may have any length): copy
// them, do not cast.
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

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/memory/dtype.hpp"
#include "clora/runtime/memory/shape.hpp"

namespace clora {

// A tensor to write, or one found in a file; then `bytes` points into the mapping.
struct StoredTensor {
  std::string name;
  DType type = DType::f32;
  Shape shape;
  std::span<const std::byte> bytes;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

class SafetensorsFile {
 public:
  // One tensor as the header describes it, of any type.
  struct Entry {
    std::string name;
    std::string type_name;      // as in the file: "F32", "I64", ...
    std::optional<DType> type;  // empty: the type is not supported
    std::vector<std::int64_t> dimensions;
    std::span<const std::byte> bytes;
  };

  // Errors: those of MappedFile::open; invalid_file (a header longer than the file, bad JSON, an
  // unknown type, a tensor outside the data or of a size that does not match its shape,
  // overlapping tensors, a duplicate name). Gaps between tensors are allowed.
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return file_.path(); }
  // Keeps the mapping alive, and with it the bytes of every tensor.
  std::shared_ptr<const void> mapping() const noexcept { return file_.owner(); }
  const SafetensorsMetadata& metadata() const noexcept { return metadata_; }
  // Sorted by name.
  const std::vector<Entry>& entries() const noexcept { return entries_; }
  std::vector<std::string> names() const;

  // Empty if no tensor has this name. Errors: unsupported if its type (I64, F8_E4M3, ...) or rank
  // (above 4) is not supported.
  std::optional<StoredTensor> find(std::string_view name) const;

 private:
  explicit SafetensorsFile(MappedFile file) : file_(std::move(file)) {}

  MappedFile file_;
  SafetensorsMetadata metadata_;
  std::vector<Entry> entries_;
};

// Writes the widest types first so that each tensor is aligned, otherwise in the given order.
// Atomic (runtime/files/file.hpp). Errors: io; invalid_argument (a duplicate name, a type that the
// format does not have, bytes that do not match the shape).
void write_safetensors(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                       const SafetensorsMetadata& metadata = {});

// Returns the bytes of a tensor by the index of its description.
using TensorBytes = std::function<std::vector<std::byte>(std::size_t description)>;
// The same for tensors that are produced one at a time: ignores `bytes` of the descriptions and
// calls make(i) once for each, in the order of writing; frees its result before the next call.
void write_safetensors(const std::filesystem::path& path,
                       std::span<const StoredTensor> descriptions,
                       const SafetensorsMetadata& metadata, const TensorBytes& make);

}  // namespace clora
