// Ranks of an adapter that its training leaves as they are (TrainerConfig::frozen_ranks).
#pragma once

#include <cstdint>

#include "clora/lora/adapter.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

// Sets the gradients of the last `ranks` ranks of every module, rows of dA and dB^T, to 0. No-op
// for 0. REQUIRES: the adapter has gradients, and more ranks in every module.
void record_frozen_gradients(Batch& batch, const Adapter& adapter, std::int64_t ranks);

}  // namespace clora
