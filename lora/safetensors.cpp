#include "lora/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/error.hpp"

namespace clora {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors are little endian");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
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
    fail(ErrorCode::invalid_file, "{}: a safetensors file has at least 8 bytes, this one {}",
         file.path().string(), bytes.size());
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeaderBytes || length > bytes.size() - kLengthBytes)
    fail(ErrorCode::invalid_file,
         "{}: the header claims {} bytes, the file has {}; it is truncated or no safetensors file",
         file.path().string(), length, bytes.size() - kLengthBytes);
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length};
}

// JSON itself lets a key come twice, and a parser then drops one of the two tensors in silence.
json parse_header(const MappedFile& file) {
  const std::string path = file.path().string();
  std::set<std::string> names;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1 &&
        !names.insert(parsed.get<std::string>()).second)
      fail(ErrorCode::invalid_file, "{}: {} is there twice", path, parsed.get<std::string>());
    return true;
  };
  json header;
  try {
    header = json::parse(header_text(file), watch);
  } catch (const json::exception& error) {
    fail(ErrorCode::invalid_file, "{}: the header is not valid JSON: {}", path, error.what());
  }
  if (!header.is_object())
    fail(ErrorCode::invalid_file, "{}: the header must be a JSON object", path);
  return header;
}

// header[key] as a list of whole numbers that are not negative.
std::vector<std::uint64_t> whole_numbers(const json& description, const char* key,
                                         const std::string& where) {
  const auto at = description.find(key);
  if (at == description.end() || !at->is_array())
    fail(ErrorCode::invalid_file, "{} needs {} as a list of numbers", where, key);
  std::vector<std::uint64_t> numbers;
  for (const json& number : *at) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() >> 62 != 0)
      fail(ErrorCode::invalid_file, "{} has the impossible number {} in {}", where, number.dump(),
           key);
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

// Product of the dimensions and the element size, refused where it passes `limit`.
std::uint64_t checked_bytes(const std::vector<std::uint64_t>& dimensions, std::uint64_t element,
                            std::uint64_t limit, const std::string& where) {
  if (std::ranges::find(dimensions, 0u) != dimensions.end()) return 0;
  std::uint64_t product = element;
  for (const std::uint64_t n : dimensions) {
    if (n > limit / product)
      fail(ErrorCode::invalid_file, "{} has a shape of more bytes than the file's {}", where,
           limit);
    product *= n;
  }
  return product;
}

SafetensorsFile::Entry read_entry(const std::string& name, const json& description,
                                  std::span<const std::byte> data, const std::string& path) {
  const std::string where = fmt::format("{}: tensor {}", path, name);
  if (!description.is_object() || !description.contains("dtype") ||
      !description["dtype"].is_string())
    fail(ErrorCode::invalid_file, "{} needs a dtype, a shape and data_offsets", where);
  SafetensorsFile::Entry entry;
  entry.name = name;
  entry.type_name = description["dtype"].get<std::string>();
  const ElementType* type = find_element_type(entry.type_name);
  if (type == nullptr)
    fail(ErrorCode::unsupported, "{} has the unknown type {}", where, entry.type_name);
  entry.type = type->type;

  const auto dimensions = whole_numbers(description, "shape", where);
  const auto offsets = whole_numbers(description, "data_offsets", where);
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data.size())
    fail(ErrorCode::invalid_file,
         "{} has data_offsets {} outside the data of {} bytes; the file is truncated or damaged",
         where, description["data_offsets"].dump(), data.size());
  const std::uint64_t size = offsets[1] - offsets[0];
  const std::uint64_t wanted = checked_bytes(dimensions, type->bytes, data.size(), where);
  if (size != wanted)
    fail(ErrorCode::invalid_file, "{} {} {} needs {} bytes, its data_offsets hold {}", where,
         entry.type_name, description["shape"].dump(), wanted, size);
  entry.dimensions.assign(dimensions.begin(), dimensions.end());
  entry.bytes = data.subspan(offsets[0], size);
  return entry;
}

SafetensorsMetadata read_metadata(const json& value, const std::string& path) {
  SafetensorsMetadata metadata;
  if (value.is_null()) return metadata;  // some writers leave it so
  if (!value.is_object())
    fail(ErrorCode::invalid_file, "{}: {} must be an object of texts", path, kMetadataKey);
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      fail(ErrorCode::invalid_file, "{}: {} must be an object of texts", path, kMetadataKey);
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

// The positions of `tensors` in the order of writing.
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

// Length and JSON, padded with spaces so that the data begins at a multiple of 8.
std::string make_header(std::span<const StoredTensor> tensors,
                        const std::vector<std::size_t>& order,
                        const SafetensorsMetadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadataKey)] = metadata;
  std::size_t offset = 0;
  for (const std::size_t i : order) {
    const StoredTensor& tensor = tensors[i];
    require(tensor.name != kMetadataKey && !header.contains(tensor.name),
            "safetensors: {} cannot be stored: the name is taken", tensor.name);
    std::vector<std::int64_t> dimensions;
    for (int d = 0; d < tensor.shape.rank(); ++d) dimensions.push_back(tensor.shape[d]);
    const std::size_t end = offset + bytes_of_tensor(tensor);
    header[tensor.name] = {{"dtype", element_type_of(tensor).name},
                           {"shape", dimensions},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
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
    fail(ErrorCode::unsupported, "{}: tensor {} is of type {}; F32, F16 and BF16 are supported",
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
