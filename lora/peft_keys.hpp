// The keys of PEFT's LoraConfig in an adapter_config.json: which are supported, which change
// nothing here, and which are rejected unless disabled. Private to lora/.
#pragma once

#include "clora/runtime/files/json.hpp"

namespace clora {

// Throws unsupported, with the file, the key and its value, for a key that would change what the
// adapter computes, and for an unknown key that is not disabled (null, false or empty).
void refuse_peft_keys(const OrderedJsonKeys& keys);

}  // namespace clora
