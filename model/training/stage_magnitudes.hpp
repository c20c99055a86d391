// The first magnitudes (DoRA) of an adapter to a model that is split by layers.
#pragma once

#include "clora/lora/adapter.hpp"
#include "clora/model/training/communicator.hpp"

namespace clora {

// Gives every rank the magnitudes of all blocks, after initialise_magnitudes()
// (model/transformer/column_scales.hpp) in each stage. Waits. Collective. Does nothing without
// magnitudes.
void exchange_magnitudes(Adapter& adapter, Communicator& ranks);

}  // namespace clora
