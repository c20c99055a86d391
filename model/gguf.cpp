#include "model/gguf.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "runtime/error.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr int kMaxDimensions = 4;
constexpr int kMaxArrayDepth = 8;
constexpr std::uint32_t kLastValueType = static_cast<std::uint32_t>(GgufType::float64);
// The least that one metadata entry or tensor description can take: what bounds their counts.
constexpr std::uint64_t kMinEntryBytes = 8 + 4 + 1;
constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

// Reads the header front to back; every step is checked against the end of the file.
class Cursor {
 public:
  Cursor(const std::filesystem::path& path, std::span<const std::byte> file)
      : path_(path), file_(file) {}

  std::uint64_t position() const noexcept { return position_; }
  std::uint64_t remaining() const noexcept { return file_.size() - position_; }

  std::span<const std::byte> bytes(std::uint64_t count, std::string_view what) {
    if (count > remaining())
      fail(ErrorCode::invalid_file,
           "{}: {} needs {} bytes at offset {}, the file has {} left; it is truncated or damaged",
           path_.string(), what, count, position_, remaining());
    const auto taken = file_.subspan(position_, count);
    position_ += count;
    return taken;
  }

  template <class T>
  T scalar(std::string_view what) {
    T value;
    std::memcpy(&value, bytes(sizeof value, what).data(), sizeof value);
    return value;
  }

  std::string_view string(std::string_view what) {
    const auto taken = bytes(scalar<std::uint64_t>(what), what);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  // A count of things of at least `least` bytes each: refused where the file cannot hold them.
  std::uint64_t count(std::uint64_t least, std::string_view what) {
    const auto value = scalar<std::uint64_t>(what);
    check_count(value, least, what);
    return value;
  }

  void check_count(std::uint64_t value, std::uint64_t least, std::string_view what) const {
    if (value > remaining() / least)
      fail(ErrorCode::invalid_file, "{}: the header claims {} {}, the file has only {} bytes left",
           path_.string(), value, what, remaining());
  }

  GgufValue value(GgufType type, std::string_view key, int depth = 0) {
    GgufValue result;
    result.type = type;
    if (type == GgufType::array) {
      read_array(result, key, depth);
    } else if (type == GgufType::string) {
      result.bytes = bytes(scalar<std::uint64_t>(key), key);
    } else {
      result.bytes = bytes(least_bytes(type), key);
    }
    return result;
  }

  GgufType type(std::string_view key) {
    const auto number = scalar<std::uint32_t>(key);
    if (number > kLastValueType)
      fail(ErrorCode::invalid_file, "{}: {} has the unknown value type {}", path_.string(), key,
           number);
    return static_cast<GgufType>(number);
  }

 private:
  // Bytes of a scalar; the length fields of a string or an array.
  static std::uint64_t least_bytes(GgufType type) {
    constexpr std::array<std::uint64_t, 13> kLeast{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
    return kLeast.at(static_cast<std::size_t>(type));
  }

  void read_array(GgufValue& array, std::string_view key, int depth) {
    if (depth == kMaxArrayDepth)
      fail(ErrorCode::invalid_file, "{}: {} nests arrays more than {} deep", path_.string(), key,
           kMaxArrayDepth);
    array.element = type(key);
    array.count = scalar<std::uint64_t>(key);
    const std::uint64_t least = least_bytes(array.element);
    check_count(array.count, least, key);
    const std::uint64_t start = position_;
    const bool fixed = array.element != GgufType::string && array.element != GgufType::array;
    if (fixed) position_ += array.count * least;
    for (std::uint64_t i = 0; !fixed && i < array.count; ++i) value(array.element, key, depth + 1);
    array.bytes = file_.subspan(start, position_ - start);
  }

  const std::filesystem::path& path_;
  std::span<const std::byte> file_;
  std::uint64_t position_ = 0;
};

std::uint32_t read_version(Cursor& cursor, const std::filesystem::path& path) {
  if (cursor.scalar<std::uint32_t>("the magic number") != kMagic)
    fail(ErrorCode::invalid_file, "{}: not a GGUF file: it does not begin with GGUF",
         path.string());
  const auto version = cursor.scalar<std::uint32_t>("the version");
  if (version != 0 && (version & 0xffffu) == 0)
    fail(ErrorCode::unsupported, "{}: a big-endian GGUF; convert it to little endian",
         path.string());
  if (version != 2 && version != 3)
    fail(ErrorCode::unsupported, "{}: GGUF version 2 or 3 is required, got {}", path.string(),
         version);
  return version;
}

// A tensor as the header describes it, before its bytes are looked for.
struct Described {
  GgufTensor tensor;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // 0 for a type that is not read here
};

Shape read_shape(Cursor& cursor, const std::filesystem::path& path, std::string_view name) {
  const auto rank = cursor.scalar<std::uint32_t>(name);
  if (rank == 0 || rank > kMaxDimensions)
    fail(ErrorCode::invalid_file, "{}: tensor {} has {} dimensions, 1 to {} are possible",
         path.string(), name, rank, kMaxDimensions);
  std::array<std::int64_t, kMaxDimensions> dimensions{};
  // The product stays below 2^58, so that a size in bytes fits 64 bits whatever the type.
  std::uint64_t room = std::uint64_t{1} << 58;
  for (std::uint32_t i = 0; i < rank; ++i) {
    const auto n = cursor.scalar<std::uint64_t>(name);
    if (n == 0 || n > room)
      fail(ErrorCode::invalid_file, "{}: tensor {} has an impossible dimension {}", path.string(),
           name, n);
    room /= n;
    dimensions[rank - 1 - i] = static_cast<std::int64_t>(n);  // GGUF names the fastest first
  }
  return Shape(std::span(dimensions).first(rank));
}

Described read_description(Cursor& cursor, const std::filesystem::path& path) {
  Described described;
  GgufTensor& tensor = described.tensor;
  tensor.name = cursor.string("a tensor's name");
  tensor.shape = read_shape(cursor, path, tensor.name);
  tensor.type_number = cursor.scalar<std::uint32_t>(tensor.name);
  described.offset = cursor.scalar<std::uint64_t>(tensor.name);
  tensor.type = dtype_of_ggml(tensor.type_number);
  if (!tensor.type) return described;
  const std::uint32_t block = facts_of(*tensor.type).block_elements;
  if (tensor.shape.last() % block != 0)
    fail(ErrorCode::invalid_file, "{}: tensor {} {} must have rows of whole {} blocks of {}",
         path.string(), tensor.name, tensor.shape.text(), name_of(*tensor.type), block);
  described.bytes = bytes_of(*tensor.type, static_cast<std::size_t>(tensor.shape.elements()));
  return described;
}

void place(Described& described, std::span<const std::byte> data, std::uint64_t alignment,
           const std::filesystem::path& path) {
  const GgufTensor& tensor = described.tensor;
  if (described.offset % alignment != 0)
    fail(ErrorCode::invalid_file, "{}: tensor {} lies at {}, not a multiple of the alignment {}",
         path.string(), tensor.name, described.offset, alignment);
  if (described.offset > data.size() || described.bytes > data.size() - described.offset)
    fail(ErrorCode::invalid_file,
         "{}: tensor {} {} needs {} bytes at {} of the data, which has {}; the file is truncated",
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

// The key's value through `decode`.
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
  GgufFile file(MappedFile::open(path));
  const auto bytes = file.file_.bytes();
  Cursor cursor(path, bytes);
  file.version_ = read_version(cursor, path);
  const auto tensor_count = cursor.scalar<std::uint64_t>("the number of tensors");
  const auto entry_count = cursor.count(kMinEntryBytes, "metadata entries");
  cursor.check_count(tensor_count, kMinTensorBytes, "tensors");

  for (std::uint64_t i = 0; i < entry_count; ++i) {
    const std::string_view key = cursor.string("a metadata key");
    const GgufType type = cursor.type(key);
    file.metadata_.push_back({key, cursor.value(type, key)});
    if (!file.value_index_.emplace(key, i).second)
      fail(ErrorCode::invalid_file, "{}: the key {} is there twice", path.string(), key);
  }

  std::vector<Described> described;
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    described.push_back(read_description(cursor, path));
    if (!file.tensor_index_.emplace(described.back().tensor.name, i).second)
      fail(ErrorCode::invalid_file, "{}: tensor {} is there twice", path.string(),
           described.back().tensor.name);
  }

  const std::uint64_t alignment = alignment_of(file);
  const std::uint64_t start = (cursor.position() + alignment - 1) / alignment * alignment;
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
  return scalar_of(*this, key, &GgufValue::text, "a text");
}

}  // namespace clora
