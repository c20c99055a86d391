// RunFingerprint: everything that determines the results of a training run, as named settings. A
// checkpoint stores it, and a run is resumed only if every setting is the same. Pure functions;
// thread-safe.
//
// Data and weights enter as XXH3 digests, which detect mix-ups but do not resist an attacker:
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
#include "clora/model/data/records.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "clora/runtime/files/digest.hpp"

namespace clora {

struct RunSetting {
  std::string name;
  std::string value;
  bool operator==(const RunSetting&) const = default;
};
using RunFingerprint = std::vector<RunSetting>;

// The settings of the parts of a run. Those of the model include the kernel variant, which
// determines the precision of products.
RunFingerprint fingerprint_of(const Records& records);
RunFingerprint fingerprint_of(const LanguageModel& model);
RunFingerprint fingerprint_of(const Adapter& adapter);

// Returns the value of a setting, or an empty string if there is none of that name.
std::string_view value_of(const RunFingerprint& fingerprint, std::string_view name);

// Returns one clause per setting that differs: "learning rate was 0.01 and is 0.005".
std::vector<std::string> differences(const RunFingerprint& saved, const RunFingerprint& now);

// Converts to and from a JSON object of strings. Errors: invalid_file, naming `source`.
std::string to_json(const RunFingerprint& fingerprint);
RunFingerprint fingerprint_from_json(std::string_view json, std::string_view source);

// Returns the digest of the weights that is described at the top of this file.
Digest digest_of_weights(std::span<const WeightView> weights);

}  // namespace clora
