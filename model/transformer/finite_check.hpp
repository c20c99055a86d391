// Finds which weight, adapter matrix or saved value is NaN or infinite.
//
// These functions cost nothing in a healthy run: they are called if a loss, a gradient norm or
// logits are not finite, and before an adapter is trained or saved. Threads: as for the model and
// the adapter.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "clora/lora/adapter.hpp"
#include "clora/model/transformer/language_model.hpp"

namespace clora {

// Returns "the weight 'model.norm.weight' of 'FILE' contains NaN at element 3" for the first such
// weight in the order of computation; nullopt if all are finite. Reads every weight from its file.
std::optional<std::string> weight_not_finite(const LanguageModel& model);

// Returns "lora_A of model.layers.0.self_attn.q_proj contains NaN at element 3" for the first such
// matrix; nullopt if all are finite. Waits for the device.
std::optional<std::string> adapter_not_finite(const Adapter& adapter);
// As above, for a copy of the adapter's flat buffer.
std::optional<std::string> adapter_not_finite(const Adapter& adapter,
                                              std::span<const float> parameters);

// Throws an Error for a result that is not finite: "RESULT is not finite: CAUSE". The cause is the
// first weight or matrix that is not finite: invalid_file, with the file, for a weight of the
// model; invalid_data for the adapter (null: none); diverged, with `otherwise`, if all are finite.
[[noreturn]] void fail_not_finite(std::string_view result, const LanguageModel& model,
                                  const Adapter* adapter, std::string_view otherwise);

}  // namespace clora
