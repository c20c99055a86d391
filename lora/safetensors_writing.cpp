// write_safetensors() of safetensors.hpp.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "clora/lora/safetensors.hpp"
#include "clora/runtime/files/json.hpp"
#include "lora/safetensors_format.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

using nlohmann::json;

const SafetensorsType& element_type_of(const StoredTensor& tensor) {
  const auto at = std::ranges::find(kSafetensorsTypes, tensor.type, &SafetensorsType::type);
  require(at != kSafetensorsTypes.end(), "safetensors: {} cannot be stored as {}", tensor.name,
          name_of(tensor.type));
  return *at;
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
    members.push_back(fmt::format("\"{}\":{}", kSafetensorsMetadataKey, json_text(json(metadata))));
  std::set<std::string_view> names{kSafetensorsMetadataKey};
  std::size_t offset = 0;
  for (const std::size_t i : order) {
    const StoredTensor& tensor = tensors[i];
    require(names.insert(tensor.name).second,
            "safetensors: {} cannot be stored: the name is already in use", tensor.name);
    members.push_back(json_text(json(tensor.name)) + ':' + description_text(tensor, offset));
    offset += bytes_of_tensor(tensor);
  }
  std::string text = fmt::format("{{{}}}", fmt::join(members, ","));
  text.resize(round_up(text.size(), 8), ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

void write_checked(AtomicFile& file, const StoredTensor& tensor, std::span<const std::byte> bytes) {
  require(bytes.size() == bytes_of_tensor(tensor), "safetensors: {} {} {} must be {} bytes, got {}",
          tensor.name, name_of(tensor.type), tensor.shape.text(), bytes_of_tensor(tensor),
          bytes.size());
  file.write(bytes);
}

// Writes bytes_of(i) as tensor i.
template <class BytesOf>
void write_each(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                const SafetensorsMetadata& metadata, const BytesOf& bytes_of) {
  const auto order = writing_order(tensors);
  const std::string header = make_header(tensors, order, metadata);
  AtomicFile file(path);
  file.write(header);
  for (const std::size_t i : order) write_checked(file, tensors[i], bytes_of(i));
  file.commit();
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                       const SafetensorsMetadata& metadata) {
  write_each(path, tensors, metadata, [&](std::size_t i) { return tensors[i].bytes; });
}

void write_safetensors(const std::filesystem::path& path,
                       std::span<const StoredTensor> descriptions,
                       const SafetensorsMetadata& metadata, const TensorBytes& make) {
  write_each(path, descriptions, metadata, make);
}

}  // namespace clora
