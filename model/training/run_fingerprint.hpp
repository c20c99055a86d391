// What the results of a training run depend on besides the model and the adapter: its data, as a
// part of the run's Fingerprint. A checkpoint stores it, and a run is resumed only if every setting
// is the same. Pure functions; thread-safe.
#pragma once

#include "clora/model/data/records.hpp"
#include "clora/model/transformer/fingerprint.hpp"

namespace clora {

// Records enter as digests (fingerprint.hpp): in their order, and in any order.
Fingerprint fingerprint_of(const Records& records);

}  // namespace clora
