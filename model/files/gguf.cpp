#include "clora/model/files/gguf.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "model/files/gguf_cursor.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr int kMaxDimensions = 4;
// Real headers have some dozen keys and a few thousand tensors. Without limits, a sparse file of
// zeros would be read as millions of them.
constexpr std::uint64_t kMaxEntries = std::uint64_t{1} << 16U;
constexpr std::uint64_t kMaxTensors = std::uint64_t{1} << 18U;
// The minimum sizes of a metadata entry and of a tensor description, which bound their counts.
constexpr std::uint64_t kMinEntryBytes = 8 + 4 + 1;
constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

std::uint32_t read_version(GgufCursor& cursor, const std::filesystem::path& path) {
  if (cursor.scalar<std::uint32_t>("the magic number") != kMagic)
    fail(ErrorCode::invalid_file, "{}: not a GGUF file: it does not start with GGUF",
         path.string());
  const auto version = cursor.scalar<std::uint32_t>("the version");
  if (version != 0 && (version & 0xffffu) == 0)
    fail(ErrorCode::unsupported,
         "{}: big-endian GGUF is not supported; convert the file to little endian", path.string());
  if (version != 2 && version != 3)
    fail(ErrorCode::unsupported, "{}: GGUF version 2 or 3 is required, got {}", path.string(),
         version);
  return version;
}

// A tensor as described in the header, before its bytes are located.
struct Described {
  GgufTensor tensor;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // 0 for an unsupported type
};

Shape read_shape(GgufCursor& cursor, const std::filesystem::path& path, std::string_view name) {
  const auto rank = cursor.scalar<std::uint32_t>(name);
  if (rank == 0 || rank > kMaxDimensions)
    fail(ErrorCode::invalid_file, "{}: tensor {} has {} dimensions; it must have 1 to {}",
         path.string(), name, rank, kMaxDimensions);
  std::array<std::int64_t, kMaxDimensions> dimensions{};
  // The product stays below 2^58, so a size in bytes fits 64 bits for any type.
  std::uint64_t remaining = std::uint64_t{1} << 58;
  for (std::uint32_t i = 0; i < rank; ++i) {
    const auto n = cursor.scalar<std::uint64_t>(name);
    if (n == 0 || n > remaining)
      fail(ErrorCode::invalid_file, "{}: tensor {} has an impossible dimension {}", path.string(),
           name, n);
    remaining /= n;
    dimensions[rank - 1 - i] = static_cast<std::int64_t>(n);  // GGUF: fastest dimension first
  }
  return Shape(std::span(dimensions).first(rank));
}

Described read_description(GgufCursor& cursor, const std::filesystem::path& path) {
  Described described;
  GgufTensor& tensor = described.tensor;
  tensor.name = cursor.name("a tensor's name");
  tensor.shape = read_shape(cursor, path, tensor.name);
  tensor.type_number = cursor.scalar<std::uint32_t>(tensor.name);
  described.offset = cursor.scalar<std::uint64_t>(tensor.name);
  tensor.type = dtype_of_ggml(tensor.type_number);
  if (!tensor.type) return described;
  const std::uint32_t block = facts_of(*tensor.type).block_elements;
  if (tensor.shape.last() % block != 0)
    fail(ErrorCode::invalid_file, "{}: tensor {} {} must have rows of complete {} blocks of {}",
         path.string(), tensor.name, tensor.shape.text(), name_of(*tensor.type), block);
  described.bytes = bytes_of(*tensor.type, static_cast<std::size_t>(tensor.shape.elements()));
  return described;
}

void place(Described& described, std::span<const std::byte> data, std::uint64_t alignment,
           const std::filesystem::path& path) {
  const GgufTensor& tensor = described.tensor;
  if (described.offset % alignment != 0)
    fail(ErrorCode::invalid_file,
         "{}: tensor {} is at offset {}, which is not a multiple of the alignment {}",
         path.string(), tensor.name, described.offset, alignment);
  if (described.offset > data.size() || described.bytes > data.size() - described.offset)
    fail(ErrorCode::invalid_file,
         "{}: tensor {} {} needs {} bytes at offset {} of the data, which has {}; the file is "
         "truncated",
         path.string(), tensor.name, tensor.shape.text(), described.bytes, described.offset,
         data.size());
  if (described.bytes > 0) described.tensor.bytes = data.subspan(described.offset, described.bytes);
}

void refuse_overlaps(const std::vector<Described>& tensors, const std::filesystem::path& path) {
  std::vector<const Described*> order;
  for (const Described& described : tensors) order.push_back(&described);
  std::ranges::sort(order, {}, [](const Described* d) { return d->offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Described& before = *order[i - 1];
    if (before.offset + std::max<std::uint64_t>(before.bytes, 1) > order[i]->offset)
      fail(ErrorCode::invalid_file, "{}: tensors {} and {} overlap", path.string(),
           before.tensor.name, order[i]->tensor.name);
  }
}

std::uint64_t alignment_of(const GgufFile& file) {
  const std::int64_t value =
      file.integer("general.alignment").value_or(static_cast<std::int64_t>(kDefaultAlignment));
  if (value <= 0 || !std::has_single_bit(static_cast<std::uint64_t>(value)) || value > (1 << 30))
    fail(ErrorCode::invalid_file, "{}: general.alignment must be a power of two, got {}",
         file.path().string(), value);
  return static_cast<std::uint64_t>(value);
}

// Returns the key's value, decoded by `decode`.
template <class T>
std::optional<T> scalar_of(const GgufFile& file, std::string_view key,
                           std::optional<T> (GgufValue::*decode)() const, std::string_view wanted) {
  const GgufValue* value = file.find_value(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<T> decoded = (value->*decode)();
  if (!decoded)
    fail(ErrorCode::invalid_file, "{}: {} must be {}, got {}", file.path().string(), key, wanted,
         name_of(value->type));
  return decoded;
}

}  // namespace

GgufFile GgufFile::open(const std::filesystem::path& path) {
  GgufFile file = open_part(path);
  return file.integer("split.count").value_or(1) > 1 ? open_split(file) : std::move(file);
}

GgufFile GgufFile::open_part(const std::filesystem::path& path) {
  GgufFile file(MappedFile::open(path));
  const auto bytes = file.parts_.front().bytes();
  GgufCursor cursor(path, bytes);
  file.version_ = read_version(cursor, path);
  const auto tensor_count = cursor.scalar<std::uint64_t>("the number of tensors");
  const auto entry_count = cursor.scalar<std::uint64_t>("the number of metadata entries");
  cursor.check_count(entry_count, kMinEntryBytes, kMaxEntries, "metadata entries");
  cursor.check_count(tensor_count, kMinTensorBytes, kMaxTensors, "tensors");

  for (std::uint64_t i = 0; i < entry_count; ++i) {
    const std::string_view key = cursor.name("a metadata key");
    const GgufType type = cursor.type(key);
    file.metadata_.push_back({key, cursor.value(type, key)});
    if (!file.value_index_.emplace(key, i).second)
      fail(ErrorCode::invalid_file, "{}: the key {} is duplicated", path.string(), key);
  }

  std::vector<Described> described;
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    described.push_back(read_description(cursor, path));
    if (!file.tensor_index_.emplace(described.back().tensor.name, i).second)
      fail(ErrorCode::invalid_file, "{}: tensor {} is duplicated", path.string(),
           described.back().tensor.name);
  }

  const std::uint64_t alignment = alignment_of(file);
  const std::uint64_t start = round_up(cursor.position(), alignment);
  const auto data = bytes.subspan(std::min<std::uint64_t>(start, bytes.size()));
  for (Described& one : described) {
    place(one, data, alignment, path);
    file.tensors_.push_back(one.tensor);
  }
  refuse_overlaps(described, path);
  return file;
}

const GgufValue* GgufFile::find_value(std::string_view key) const {
  const auto at = value_index_.find(key);
  return at == value_index_.end() ? nullptr : &metadata_[at->second].value;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto at = tensor_index_.find(name);
  return at == tensor_index_.end() ? nullptr : &tensors_[at->second];
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  return scalar_of(*this, key, &GgufValue::integer, "an integer");
}

std::optional<double> GgufFile::number(std::string_view key) const {
  return scalar_of(*this, key, &GgufValue::number, "a number");
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  return scalar_of(*this, key, &GgufValue::boolean, "true or false");
}

std::optional<std::string_view> GgufFile::text(std::string_view key) const {
  return scalar_of(*this, key, &GgufValue::text, "a string");
}

}  // namespace clora
