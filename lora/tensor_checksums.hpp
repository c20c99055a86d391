// Checksums (XXH3-128) of the tensors and of the metadata of a safetensors file, stored in its
// metadata. They detect damaged bytes, but do not resist an attacker. Pure functions; thread-safe.
//
//   "checksum of NAME"   of the tensor's bytes
//   "checksum"           of all other metadata
#pragma once

#include <span>
#include <string_view>

#include "clora/lora/safetensors.hpp"

namespace clora {

// Returns the metadata with the checksums of the tensors and of the metadata added.
SafetensorsMetadata with_checksums(SafetensorsMetadata metadata,
                                   std::span<const StoredTensor> tensors);
// The same for tensors that are produced one at a time, as write_safetensors() writes them.
SafetensorsMetadata with_checksums(SafetensorsMetadata metadata,
                                   std::span<const StoredTensor> descriptions,
                                   const TensorBytes& make);

bool has_checksums(const SafetensorsFile& file);

// Throw Error(invalid_file), beginning with `who` and naming the file and the tensor, if a checksum
// is missing or differs.
void require_intact_metadata(const SafetensorsFile& file, std::string_view who);
void require_intact(const SafetensorsFile& file, const StoredTensor& tensor, std::string_view who);

}  // namespace clora
