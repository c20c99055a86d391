// Fingerprint: what the results of a computation depend on, as named settings. A file of results
// stores it, such as a checkpoint, and is used only where every setting is the same. Pure
// functions; thread-safe.
//
// Weights enter as XXH3 digests, which detect mix-ups but do not resist an attacker:
// - names, types, shapes and bytes of the model's weights: every byte of a model of up to 1 GiB; of
//   a larger one, the tensors up to 256 KiB in full and 64 pages of 4 KiB, spread evenly, of each
//   other tensor, so changes of single elements between these pages are not detected;
// - paths, sizes, ranks and scales of all adapted layers.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "clora/runtime/files/digest.hpp"

namespace clora {

struct FingerprintSetting {
  std::string name;
  std::string value;
  bool operator==(const FingerprintSetting&) const = default;
};
using Fingerprint = std::vector<FingerprintSetting>;

// Those of a model include the kernel variant, which determines the precision of products. Those of
// an adapter do not include the values of its matrices.
Fingerprint fingerprint_of(const LanguageModel& model);
Fingerprint fingerprint_of(const Adapter& adapter);

// Returns the value of a setting, or an empty string if there is none of that name.
std::string_view value_of(const Fingerprint& fingerprint, std::string_view name);

// Returns one clause per setting that differs: "learning rate was 0.01 and is 0.005".
std::vector<std::string> differences(const Fingerprint& saved, const Fingerprint& now);

// Converts to and from a JSON object of strings. Errors: invalid_file, naming `source`.
std::string to_json(const Fingerprint& fingerprint);
Fingerprint fingerprint_from_json(std::string_view json, std::string_view source);

// Returns the digest of the weights that is described at the top of this file.
Digest digest_of_weights(std::span<const WeightView> weights);
// Returns the digest of the digests' texts, one after the other.
Digest digest_of_digests(std::span<const Digest> digests);

}  // namespace clora
