// RunFingerprint: what decides the results of a training run, as named settings. A checkpoint keeps
// it, and a run is resumed only where every setting is as it was. Pure functions; thread-safe.
//
// Data and weights enter as XXH3 digests, which tell mix-ups apart and do not resist an attacker:
// - the ids and loss marks of all records, and their order;
// - names, types, shapes and bytes of the model's weights: every byte of a model of up to 1 GiB; of
//   a larger one the tensors up to 256 KiB in full and 64 pages of 4 KiB, spread evenly, of each of
//   the others, so that a change of single elements between these pages is not seen;
// - paths, sizes, ranks and scales of all adapted layers.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lora/adapter.hpp"
#include "model/data/records.hpp"
#include "model/families/language_model.hpp"
#include "runtime/digest.hpp"

namespace clora {

struct RunSetting {
  std::string name;
  std::string value;
  bool operator==(const RunSetting&) const = default;
};
using RunFingerprint = std::vector<RunSetting>;

// The settings of the parts that a run is made of. The model's includes the kernels' variant, which
// decides the precision of products.
RunFingerprint fingerprint_of(const Records& records);
RunFingerprint fingerprint_of(const LanguageModel& model);
RunFingerprint fingerprint_of(const Adapter& adapter);

// The value of a setting, or an empty text where there is none of that name.
std::string_view value_of(const RunFingerprint& fingerprint, std::string_view name);

// One sentence part a setting that differs: "learning rate was 0.01 and is 0.005".
std::vector<std::string> differences(const RunFingerprint& saved, const RunFingerprint& now);

// A JSON object of texts, and back. Errors: invalid_file, naming `source`.
std::string to_json(const RunFingerprint& fingerprint);
RunFingerprint fingerprint_from_json(std::string_view json, std::string_view source);

// Of the weights as the head of this file says.
Digest digest_of_weights(std::span<const WeightView> weights);

}  // namespace clora
