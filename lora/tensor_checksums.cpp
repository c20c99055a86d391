#include "lora/tensor_checksums.hpp"

#include "clora/runtime/files/digest.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr const char* kChecksum = "checksum";

std::string key_of(std::string_view tensor) { return fmt::format("{} of {}", kChecksum, tensor); }

// Checksum of all metadata except the checksum itself; lengths delimit the entries.
std::string checksum_of(SafetensorsMetadata metadata) {
  metadata.erase(kChecksum);
  std::string text;
  for (const auto& [key, value] : metadata) {
    text += fmt::format("{} {}\n{} {}\n", key.size(), key, value.size(), value);
  }
  return digest_of(text).text();
}

bool has(const SafetensorsFile& file, const std::string& key, const std::string& value) {
  const auto found = file.metadata().find(key);
  return found != file.metadata().end() && found->second == value;
}

}  // namespace

SafetensorsMetadata with_checksums(SafetensorsMetadata metadata,
                                   std::span<const StoredTensor> tensors) {
  for (const StoredTensor& tensor : tensors) {
    metadata[key_of(tensor.name)] = digest_of(tensor.bytes).text();
  }
  metadata[kChecksum] = checksum_of(metadata);
  return metadata;
}

SafetensorsMetadata with_checksums(SafetensorsMetadata metadata,
                                   std::span<const StoredTensor> descriptions,
                                   const TensorBytes& make) {
  for (std::size_t i = 0; i < descriptions.size(); ++i) {
    metadata[key_of(descriptions[i].name)] = digest_of(make(i)).text();
  }
  metadata[kChecksum] = checksum_of(metadata);
  return metadata;
}

bool has_checksums(const SafetensorsFile& file) { return file.metadata().contains(kChecksum); }

void require_intact_metadata(const SafetensorsFile& file, std::string_view who) {
  if (has(file, kChecksum, checksum_of(file.metadata()))) return;
  fail(ErrorCode::invalid_file,
       "{}: the metadata of '{}' does not match its checksum: the file is damaged", who,
       file.path().string());
}

void require_intact(const SafetensorsFile& file, const StoredTensor& tensor, std::string_view who) {
  if (has(file, key_of(tensor.name), digest_of(tensor.bytes).text())) return;
  fail(ErrorCode::invalid_file,
       "{}: the tensor '{}' of '{}' does not match its checksum: the file is damaged", who,
       tensor.name, file.path().string());
}

}  // namespace clora
