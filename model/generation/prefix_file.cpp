#include "model/generation/prefix_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "lora/tensor_checksums.hpp"
#include "runtime/fail.hpp"
#include "runtime/files/disk_space.hpp"

namespace clora {
namespace {

constexpr const char* kWho = "saved prefix";
constexpr const char* kFormat = "clora-prefix";
constexpr const char* kVersion = "1";
constexpr const char* kTokens = "tokens";
constexpr std::array kRoles{"keys", "values"};

const std::string& text_of(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) {
    fail(ErrorCode::invalid_file, "{}: '{}' must have '{}' in its metadata, it has none", kWho,
         file.path().string(), key);
  }
  return found->second;
}

void require_format(const SafetensorsFile& file) {
  const auto format = file.metadata().find("format");
  if (format == file.metadata().end() || format->second != kFormat) {
    fail(ErrorCode::invalid_file,
         "{}: '{}' is a safetensors file, but not one with the keys and values of a prefix", kWho,
         file.path().string());
  }
  require_intact_metadata(file, kWho);
  const std::string& version = text_of(file, "format_version");
  if (version == kVersion) return;
  fail(ErrorCode::unsupported, "{}: '{}' has format version '{}'; this version of clora reads {}",
       kWho, file.path().string(), version.substr(0, 40), kVersion);
}

std::string text_of(const StoredTensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.type), tensor.shape.text());
}

StoredTensor find_tensor(const SafetensorsFile& file, const std::string& name) {
  const std::optional<StoredTensor> tensor = file.find(name);
  if (!tensor) {
    fail(ErrorCode::invalid_file, "{}: '{}' must have a tensor '{}', it has none", kWho,
         file.path().string(), name);
  }
  return *tensor;
}

std::vector<std::int32_t> tokens_of(const SafetensorsFile& file) {
  const StoredTensor tensor = find_tensor(file, kTokens);
  if (tensor.type != DType::i32 || tensor.shape.rank() != 1 || tensor.shape.elements() == 0) {
    fail(ErrorCode::invalid_file,
         "{}: the tensor '{}' of '{}' must be i32 [P], P at least 1, got {}", kWho, kTokens,
         file.path().string(), text_of(tensor));
  }
  require_intact(file, tensor, kWho);
  std::vector<std::int32_t> tokens(tensor.bytes.size() / sizeof(std::int32_t));
  std::memcpy(tokens.data(), tensor.bytes.data(), tensor.bytes.size());
  return tokens;
}

// How the file describes `positions` rows. safetensors has no quantised types.
StoredTensor description_of(const PrefixRows& rows, std::int64_t positions) {
  const Shape& shape = rows.cache.shape();
  const DType type = rows.cache.type();
  if (!is_quantised(type)) {
    return {rows.name, type, {positions, shape[1], shape[2]}, {}};
  }
  const std::size_t bytes = bytes_of(type, static_cast<std::size_t>(shape[1] * shape[2]));
  return {rows.name, DType::u8, {positions, static_cast<std::int64_t>(bytes)}, {}};
}

}  // namespace

std::vector<PrefixRows> prefix_rows(std::span<const CacheTensors> caches, std::size_t first_layer) {
  std::vector<PrefixRows> rows;
  for (std::size_t layer = 0; layer < caches.size(); ++layer) {
    require(caches[layer].size() == kRoles.size(), "{}: a layer must keep keys and values", kWho);
    for (std::size_t i = 0; i < kRoles.size(); ++i) {
      rows.push_back(
          {fmt::format("cache.{}.{}", first_layer + layer, kRoles[i]), caches[layer][i]});
    }
  }
  return rows;
}

PrefixFile PrefixFile::open(const std::filesystem::path& path) {
  SafetensorsFile file = SafetensorsFile::open(path);
  require_format(file);
  Fingerprint fingerprint = fingerprint_from_json(
      text_of(file, "fingerprint"), fmt::format("{}: 'fingerprint' of '{}'", kWho, path.string()));
  std::vector<std::int32_t> tokens = tokens_of(file);
  return {std::move(file), std::move(fingerprint), std::move(tokens)};
}

std::span<const std::byte> PrefixFile::rows(const PrefixRows& rows) const {
  const StoredTensor tensor = find_tensor(file_, rows.name);
  const StoredTensor wanted = description_of(rows, std::ssize(tokens_));
  if (tensor.type != wanted.type || tensor.shape != wanted.shape) {
    fail(ErrorCode::invalid_file, "{}: the tensor '{}' of '{}' must be {}, got {}", kWho, rows.name,
         path().string(), text_of(wanted), text_of(tensor));
  }
  require_intact(file_, tensor, kWho);
  return tensor.bytes;
}

void write_prefix_file(const std::filesystem::path& path, const Fingerprint& fingerprint,
                       std::span<const std::int32_t> tokens, std::span<const PrefixRows> rows,
                       const TensorBytes& make) {
  std::vector<StoredTensor> tensors;
  std::size_t bytes = tokens.size_bytes();
  for (const PrefixRows& each : rows) {
    tensors.push_back(description_of(each, std::ssize(tokens)));
    bytes +=
        bytes_of(tensors.back().type, static_cast<std::size_t>(tensors.back().shape.elements()));
  }
  tensors.push_back({kTokens, DType::i32, {std::ssize(tokens)}, {}});
  require_free_space(path, bytes, kWho);
  const TensorBytes bytes_of_tensor = [&](std::size_t i) {
    if (i < rows.size()) return make(i);
    const auto all = std::as_bytes(tokens);
    return std::vector<std::byte>(all.begin(), all.end());
  };
  const SafetensorsMetadata metadata{
      {"format", kFormat}, {"format_version", kVersion}, {"fingerprint", to_json(fingerprint)}};
  write_safetensors(path, tensors, with_checksums(metadata, tensors, bytes_of_tensor),
                    bytes_of_tensor);
}

}  // namespace clora
