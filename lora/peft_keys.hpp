// The keys of PEFT's LoraConfig that an adapter_config.json may hold: which are understood, which
// change nothing here, and which are refused unless switched off. Private to lora/.
#pragma once

#include "runtime/json.hpp"

namespace clora {

// Errors: unsupported, naming the file, the key and its value, for what would change what the
// adapter computes, and for a key that is not known and not switched off (null, false, or empty).
void refuse_peft_keys(const OrderedJsonKeys& keys);

}  // namespace clora
