#include "clora/model/files/gguf_writing.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kAlignment = 32;  // of each tensor's data, the format's default
constexpr std::size_t kMaxNameBytes = 63;
constexpr std::uint32_t kVersion = 3;
constexpr std::string_view kAlignmentKey = "general.alignment";

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& out, std::string_view text) {
  append(out, std::uint64_t{text.size()});
  out += text;
}

std::string array_head(GgufType element, std::size_t count) {
  std::string bytes;
  append(bytes, static_cast<std::uint32_t>(element));
  append(bytes, std::uint64_t{count});
  return bytes;
}

std::string_view characters(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::size_t bytes_of_tensor(const GgufTensorDescription& tensor) {
  return bytes_of(tensor.type, static_cast<std::size_t>(tensor.shape.elements()));
}

std::uint32_t checked_type(const GgufTensorDescription& tensor) {
  const std::optional<std::uint32_t> number = ggml_type_of(tensor.type);
  require(number.has_value(), "GGUF: tensor '{}' cannot be stored as {}", tensor.name,
          name_of(tensor.type));
  require(!tensor.name.empty() && tensor.name.size() <= kMaxNameBytes,
          "GGUF: tensor '{}' must have a name of 1 to {} bytes", tensor.name, kMaxNameBytes);
  const Shape& shape = tensor.shape;
  const std::int64_t row = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  require(row % facts_of(tensor.type).block_elements == 0,
          "GGUF: rows of tensor '{}' {} must be a multiple of {} elements to be stored as {}",
          tensor.name, shape.text(), facts_of(tensor.type).block_elements, name_of(tensor.type));
  return *number;
}

// Everything before the data of the tensors, padded to the alignment.
std::string header_of(const GgufMetadata& metadata,
                      std::span<const GgufTensorDescription> tensors) {
  require(!metadata.has(kAlignmentKey), "GGUF: {} is not supported for writing", kAlignmentKey);
  std::string out = "GGUF";
  append(out, kVersion);
  append(out, std::uint64_t{tensors.size()});
  append(out, std::uint64_t{metadata.size()});
  out += metadata.encoded();
  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const GgufTensorDescription& tensor : tensors) {
    const std::uint32_t type = checked_type(tensor);
    require(names.insert(tensor.name).second, "GGUF: two tensors are named '{}'", tensor.name);
    append_text(out, tensor.name);
    append(out, static_cast<std::uint32_t>(tensor.shape.rank()));
    for (int d = tensor.shape.rank() - 1; d >= 0; --d) {
      append(out, static_cast<std::uint64_t>(tensor.shape[d]));
    }
    append(out, type);
    append(out, offset);
    offset += round_up(bytes_of_tensor(tensor), kAlignment);
  }
  out.resize(round_up(out.size(), kAlignment));
  return out;
}

}  // namespace

void GgufMetadata::put(std::string_view key, GgufType type, std::string value) {
  const auto at = std::ranges::find(values_, key, &Value::key);
  if (at == values_.end()) {
    values_.push_back({std::string(key), type, std::move(value)});
  } else {
    at->type = type;
    at->bytes = std::move(value);
  }
}

template <class T>
void GgufMetadata::put_array(std::string_view key, GgufType element, std::span<const T> values) {
  std::string bytes = array_head(element, values.size());
  bytes += characters(std::as_bytes(values));
  put(key, GgufType::array, std::move(bytes));
}

void GgufMetadata::set_text(std::string_view key, std::string_view text) {
  std::string bytes;
  append_text(bytes, text);
  put(key, GgufType::string, std::move(bytes));
}

void GgufMetadata::set_uint32(std::string_view key, std::uint32_t value) {
  put(key, GgufType::uint32, std::string(reinterpret_cast<const char*>(&value), sizeof value));
}

void GgufMetadata::set_float32(std::string_view key, float value) {
  put(key, GgufType::float32, std::string(reinterpret_cast<const char*>(&value), sizeof value));
}

void GgufMetadata::set_boolean(std::string_view key, bool value) {
  put(key, GgufType::boolean, std::string(1, value ? '\1' : '\0'));
}

void GgufMetadata::set_texts(std::string_view key, std::span<const std::string> texts) {
  std::string bytes = array_head(GgufType::string, texts.size());
  for (const std::string& text : texts) append_text(bytes, text);
  put(key, GgufType::array, std::move(bytes));
}

void GgufMetadata::set_int32s(std::string_view key, std::span<const std::int32_t> values) {
  put_array(key, GgufType::int32, values);
}

void GgufMetadata::set_float32s(std::string_view key, std::span<const float> values) {
  put_array(key, GgufType::float32, values);
}

void GgufMetadata::set_booleans(std::string_view key, const std::vector<bool>& values) {
  std::string bytes = array_head(GgufType::boolean, values.size());
  for (const bool value : values) bytes += value ? '\1' : '\0';
  put(key, GgufType::array, std::move(bytes));
}

void GgufMetadata::set(std::string_view key, const GgufValue& value) {
  std::string bytes;
  if (value.type == GgufType::string) append(bytes, std::uint64_t{value.bytes.size()});
  if (value.type == GgufType::array) bytes = array_head(value.element, value.count);
  bytes += characters(value.bytes);
  put(key, value.type, std::move(bytes));
}

bool GgufMetadata::has(std::string_view key) const {
  return std::ranges::find(values_, key, &Value::key) != values_.end();
}

void GgufMetadata::remove(std::string_view key) {
  std::erase_if(values_, [key](const Value& value) { return value.key == key; });
}

std::string GgufMetadata::encoded() const {
  std::string out;
  for (const Value& value : values_) {
    append_text(out, value.key);
    append(out, static_cast<std::uint32_t>(value.type));
    out += value.bytes;
  }
  return out;
}

void write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata,
                std::span<const GgufTensorDescription> tensors, const GgufTensorBytes& make) {
  const std::string header = header_of(metadata, tensors);
  AtomicFile file(path);
  file.write(header);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t expected = bytes_of_tensor(tensors[i]);
    const std::vector<std::byte> bytes = make(i);
    require(bytes.size() == expected, "GGUF: tensor '{}' {} {} must be {} bytes, got {}",
            tensors[i].name, name_of(tensors[i].type), tensors[i].shape.text(), expected,
            bytes.size());
    file.write(bytes);
    file.write(std::string(round_up(expected, kAlignment) - expected, '\0'));
  }
  file.commit();
}

std::uintmax_t gguf_file_bytes(const GgufMetadata& metadata,
                               std::span<const GgufTensorDescription> tensors) {
  std::uintmax_t bytes = header_of(metadata, tensors).size();
  for (const GgufTensorDescription& tensor : tensors) {
    bytes += round_up(bytes_of_tensor(tensor), kAlignment);
  }
  return bytes;
}

}  // namespace clora
