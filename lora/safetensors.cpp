#include "clora/lora/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors are little endian");

constexpr std::uint64_t kLengthBytes = 8;
// The parsed header takes up to about twenty times its size in memory. Real headers have some
// hundred bytes per tensor; the reference implementation stops at 100 MB.
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{16} << 20U;
constexpr std::size_t kMaxTensors = std::size_t{1} << 18U;
constexpr std::size_t kMaxNameBytes = 1024;
constexpr JsonLimits kHeaderLimits{
    .bytes = kMaxHeaderBytes, .depth = 8, .string_bytes = kMaxHeaderBytes, .unique_keys = true};
constexpr std::string_view kMetadataKey = "__metadata__";

struct ElementType {
  std::string_view name;
  std::uint64_t bytes;
  std::optional<DType> type;
};

constexpr std::array kElementTypes{
    ElementType{"F32", 4, DType::f32},       ElementType{"F16", 2, DType::f16},
    ElementType{"BF16", 2, DType::bf16},     ElementType{"I32", 4, DType::i32},
    ElementType{"U32", 4, DType::u32},       ElementType{"U8", 1, DType::u8},
    ElementType{"F64", 8, std::nullopt},     ElementType{"I64", 8, std::nullopt},
    ElementType{"U64", 8, std::nullopt},     ElementType{"I16", 2, std::nullopt},
    ElementType{"U16", 2, std::nullopt},     ElementType{"I8", 1, std::nullopt},
    ElementType{"BOOL", 1, std::nullopt},    ElementType{"F8_E4M3", 1, std::nullopt},
    ElementType{"F8_E5M2", 1, std::nullopt}, ElementType{"F8_E8M0", 1, std::nullopt},
    ElementType{"C64", 8, std::nullopt},
};

const ElementType* find_element_type(std::string_view name) {
  const auto at = std::ranges::find(kElementTypes, name, &ElementType::name);
  return at == kElementTypes.end() ? nullptr : &*at;
}

const ElementType& element_type_of(const StoredTensor& tensor) {
  const auto at = std::ranges::find(kElementTypes, tensor.type, &ElementType::type);
  require(at != kElementTypes.end(), "safetensors: {} cannot be stored as {}", tensor.name,
          name_of(tensor.type));
  return *at;
}

// The JSON text between the length and the data.
std::string_view header_text(const MappedFile& file) {
  const auto bytes = file.bytes();
  if (bytes.size() < kLengthBytes)
    fail(ErrorCode::invalid_file, "{}: a safetensors file must have at least 8 bytes, got {}",
         file.path().string(), bytes.size());
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > bytes.size() - kLengthBytes)
    fail(ErrorCode::invalid_file,
         "{}: the header claims {} bytes, but the file has {}; it is truncated or not a "
         "safetensors file",
         file.path().string(), length, bytes.size() - kLengthBytes);
  if (length > kMaxHeaderBytes)
    fail(ErrorCode::invalid_file, "{}: the header must have at most {} bytes, got {}",
         file.path().string(), kMaxHeaderBytes, length);
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length};
}

// JSON allows duplicate keys; without the check one of two tensors would be dropped silently.
json parse_header(const MappedFile& file) {
  const std::string path = file.path().string();
  json header = parse_json(header_text(file), path + ": header", kHeaderLimits);
  if (!header.is_object())
    fail(ErrorCode::invalid_file, "{}: the header must be a JSON object, got {}", path,
         json_excerpt(header));
  if (header.size() > kMaxTensors)
    fail(ErrorCode::invalid_file, "{}: the header must name at most {} tensors, got {}", path,
         kMaxTensors, header.size());
  return header;
}

// Returns the value of `key` as a list of non-negative integers.
std::vector<std::uint64_t> integers_of(const JsonKeys& description, std::string_view key) {
  const json* list = description.find(key);
  if (list == nullptr || !list->is_array())
    description.wrong_kind(key, "a list of integers", list == nullptr ? json() : *list);
  std::vector<std::uint64_t> numbers;
  for (const json& number : *list) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() >> 62 != 0)
      description.wrong_kind(key, "a list of integers from 0 to 2^62", number);
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

// "[3, 4]"; long lists show their first eight elements.
std::string text_of(const std::vector<std::uint64_t>& numbers) {
  constexpr std::size_t kShown = 8;
  const std::span<const std::uint64_t> all(numbers);
  return fmt::format("[{}{}]", fmt::join(all.first(std::min(all.size(), kShown)), ", "),
                     all.size() > kShown ? ", ..." : "");
}

// Returns the product of the dimensions and the element size; throws if it exceeds `limit`.
std::uint64_t checked_bytes(const std::vector<std::uint64_t>& dimensions, std::uint64_t element,
                            std::uint64_t limit, const std::string& where) {
  if (std::ranges::find(dimensions, 0u) != dimensions.end()) return 0;
  std::uint64_t product = element;
  for (const std::uint64_t n : dimensions) {
    if (n > limit / product)
      fail(ErrorCode::invalid_file, "{} has a shape that needs more than the file's {} bytes",
           where, limit);
    product *= n;
  }
  return product;
}

const ElementType& element_type_of(const JsonKeys& description) {
  const std::string name = description.text("dtype");
  const ElementType* type = find_element_type(name);
  if (type == nullptr)
    fail(ErrorCode::unsupported, "{}: {} has the unknown type {}", description.source(),
         description.name_of_key("dtype"), json_excerpt(json(name)));
  return *type;
}

SafetensorsFile::Entry read_entry(const std::string& name, const json& value,
                                  std::span<const std::byte> data, const std::string& path) {
  if (name.empty() || name.size() > kMaxNameBytes)
    fail(ErrorCode::invalid_file, "{}: a tensor name must have 1 to {} bytes, got {}: {}", path,
         kMaxNameBytes, name.size(), json_excerpt(json(name)));
  const std::string where = fmt::format("{}: tensor {}", path, name);
  const JsonKeys description(value, path, name);
  const ElementType& type = element_type_of(description);
  const auto dimensions = integers_of(description, "shape");
  const auto offsets = integers_of(description, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data.size())
    fail(ErrorCode::invalid_file,
         "{} has data_offsets {} outside the data of {} bytes; the file is truncated or damaged",
         where, text_of(offsets), data.size());
  const std::uint64_t size = offsets[1] - offsets[0];
  const std::uint64_t wanted = checked_bytes(dimensions, type.bytes, data.size(), where);
  if (size != wanted)
    fail(ErrorCode::invalid_file, "{} {} {} needs {} bytes, but its data_offsets span {}", where,
         type.name, text_of(dimensions), wanted, size);
  SafetensorsFile::Entry entry{.name = name,
                               .type_name = std::string(type.name),
                               .type = type.type,
                               .dimensions = {},
                               .bytes = data.subspan(offsets[0], size)};
  entry.dimensions.assign(dimensions.begin(), dimensions.end());
  return entry;
}

SafetensorsMetadata read_metadata(const json& value, const std::string& path) {
  SafetensorsMetadata metadata;
  if (value.is_null()) return metadata;  // some writers write null
  if (!value.is_object())
    fail(ErrorCode::invalid_file, "{}: {} must be an object of strings, got {}", path, kMetadataKey,
         json_excerpt(value));
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      fail(ErrorCode::invalid_file, "{}: {} must be an object of strings, got {} as {}", path,
           kMetadataKey, json_excerpt(text), json_excerpt(json(key)));
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

void refuse_overlaps(const std::vector<SafetensorsFile::Entry>& entries, const std::string& path) {
  std::vector<const SafetensorsFile::Entry*> order;
  for (const auto& entry : entries)
    if (!entry.bytes.empty()) order.push_back(&entry);
  std::ranges::sort(order, {}, [](const auto* entry) { return entry->bytes.data(); });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i - 1]->bytes.data() + order[i - 1]->bytes.size() > order[i]->bytes.data())
      fail(ErrorCode::invalid_file, "{}: tensors {} and {} overlap", path, order[i - 1]->name,
           order[i]->name);
}

// Returns the indices of `tensors` in the order of writing.
std::vector<std::size_t> writing_order(std::span<const StoredTensor> tensors) {
  std::vector<std::size_t> order(tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t i) { return element_type_of(tensors[i]).bytes; });
  return order;
}

std::size_t bytes_of_tensor(const StoredTensor& tensor) {
  return bytes_of(tensor.type, static_cast<std::size_t>(tensor.shape.elements()));
}

// Returns {"dtype": ..., "shape": ..., "data_offsets": ...} of a tensor that begins at `offset`.
std::string description_text(const StoredTensor& tensor, std::size_t offset) {
  std::vector<std::int64_t> dimensions;
  for (int d = 0; d < tensor.shape.rank(); ++d) dimensions.push_back(tensor.shape[d]);
  return json_text(
      nlohmann::ordered_json{{"dtype", element_type_of(tensor).name},
                             {"shape", dimensions},
                             {"data_offsets", {offset, offset + bytes_of_tensor(tensor)}}});
}

// The length and the JSON, padded with spaces so that the data begins at a multiple of 8. The
// object is written key by key: an ordered_json of all tensors would search all names for each one.
std::string make_header(std::span<const StoredTensor> tensors,
                        const std::vector<std::size_t>& order,
                        const SafetensorsMetadata& metadata) {
  std::vector<std::string> members;
  if (!metadata.empty())
    members.push_back(fmt::format("\"{}\":{}", kMetadataKey, json_text(json(metadata))));
  std::set<std::string_view> names{kMetadataKey};
  std::size_t offset = 0;
  for (const std::size_t i : order) {
    const StoredTensor& tensor = tensors[i];
    require(names.insert(tensor.name).second,
            "safetensors: {} cannot be stored: the name is already in use", tensor.name);
    members.push_back(json_text(json(tensor.name)) + ':' + description_text(tensor, offset));
    offset += bytes_of_tensor(tensor);
  }
  std::string text = fmt::format("{{{}}}", fmt::join(members, ","));
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

void write_checked(AtomicFile& file, const StoredTensor& tensor, std::span<const std::byte> bytes) {
  require(bytes.size() == bytes_of_tensor(tensor), "safetensors: {} {} {} must be {} bytes, got {}",
          tensor.name, name_of(tensor.type), tensor.shape.text(), bytes_of_tensor(tensor),
          bytes.size());
  file.write(bytes);
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file(MappedFile::open(path));
  const json header = parse_header(file.file_);
  const auto data = file.file_.bytes().subspan(kLengthBytes + header_text(file.file_).size());
  for (const auto& [name, description] : header.items()) {
    if (name == kMetadataKey)
      file.metadata_ = read_metadata(description, path.string());
    else
      file.entries_.push_back(read_entry(name, description, data, path.string()));
  }
  refuse_overlaps(file.entries_, path.string());
  std::ranges::sort(file.entries_, {}, &Entry::name);
  return file;
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

std::optional<StoredTensor> SafetensorsFile::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(entries_, name, {}, &Entry::name);
  if (at == entries_.end() || at->name != name) return std::nullopt;
  if (!at->type)
    fail(ErrorCode::unsupported, "{}: tensor {} has type {}; F32, F16 and BF16 are supported",
         path().string(), name, at->type_name);
  if (at->dimensions.size() > Shape::kMaxRank)
    fail(ErrorCode::unsupported, "{}: tensor {} has {} dimensions; at most {} are supported",
         path().string(), name, at->dimensions.size(), Shape::kMaxRank);
  return StoredTensor{at->name, *at->type, Shape(std::span(at->dimensions)), at->bytes};
}

void write_safetensors(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                       const SafetensorsMetadata& metadata) {
  const auto order = writing_order(tensors);
  const std::string header = make_header(tensors, order, metadata);
  AtomicFile file(path);
  file.write(header);
  for (const std::size_t i : order) write_checked(file, tensors[i], tensors[i].bytes);
  file.commit();
}

void write_safetensors(const std::filesystem::path& path,
                       std::span<const StoredTensor> descriptions,
                       const SafetensorsMetadata& metadata,
                       const std::function<std::vector<std::byte>(std::size_t)>& make) {
  const auto order = writing_order(descriptions);
  const std::string header = make_header(descriptions, order, metadata);
  AtomicFile file(path);
  file.write(header);
  for (const std::size_t i : order) write_checked(file, descriptions[i], make(i));
  file.commit();
}

}  // namespace clora
