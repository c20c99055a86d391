// The keys of PEFT's LoraConfig in an adapter_config.json: which are supported, which change
// nothing here, and which are rejected unless disabled. Private to lora/.
#pragma once

#include "clora/runtime/files/json.hpp"

namespace clora {

// Which weights an adapter is for: those of the base model's files, those that its initialisation
// changed to W - scale * b0 a0, or either.
enum class BaseWeights { original, changed, either };

// Throws unsupported, with the file, the key and its value, for a key that would change what the
// adapter computes, and for an unknown key that is not disabled (null, false or empty); and for an
// init_lora_weights of other weights than `base`.
void refuse_peft_keys(const OrderedJsonKeys& keys, BaseWeights base);

}  // namespace clora
