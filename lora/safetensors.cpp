#include "clora/lora/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "clora/runtime/files/json.hpp"
#include "lora/safetensors_format.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
// The parsed header takes up to about twenty times its size in memory. Real headers have some
// hundred bytes per tensor; the reference implementation stops at 100 MB.
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{16} << 20U;
constexpr std::size_t kMaxTensors = std::size_t{1} << 18U;
constexpr std::size_t kMaxNameBytes = 1024;
constexpr JsonLimits kHeaderLimits{
    .bytes = kMaxHeaderBytes, .depth = 8, .string_bytes = kMaxHeaderBytes, .unique_keys = true};
const SafetensorsType* find_element_type(std::string_view name) {
  const auto at = std::ranges::find(kSafetensorsTypes, name, &SafetensorsType::name);
  return at == kSafetensorsTypes.end() ? nullptr : &*at;
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

const SafetensorsType& element_type_of(const JsonKeys& description) {
  const std::string name = description.text("dtype");
  const SafetensorsType* type = find_element_type(name);
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
  const SafetensorsType& type = element_type_of(description);
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
    fail(ErrorCode::invalid_file, "{}: {} must be an object of strings, got {}", path,
         kSafetensorsMetadataKey, json_excerpt(value));
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      fail(ErrorCode::invalid_file, "{}: {} must be an object of strings, got {} as {}", path,
           kSafetensorsMetadataKey, json_excerpt(text), json_excerpt(json(key)));
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

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file(MappedFile::open(path));
  const json header = parse_header(file.file_);
  const auto data = file.file_.bytes().subspan(kLengthBytes + header_text(file.file_).size());
  for (const auto& [name, description] : header.items()) {
    if (name == kSafetensorsMetadataKey)
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

}  // namespace clora
