// The first values of a new adapter.
#pragma once

#include <cstdint>
#include <optional>

#include "clora/model/transformer/principal_start.hpp"

namespace clora {

// Random A by the seed and B = 0, or matrices that are a part of the weights.
struct AdapterStart {
  std::uint64_t seed = 0;
  std::optional<PrincipalStart> principal = {};
};

// After Adapter::initialise(): sets magnitudes and full tensors to those of the base model, and
// with a `start` the matrices to a part of the weights. Waits. Errors: those of
// initialise_magnitudes() (column_scales.hpp), initialise_saved_tensors() (saved_tensors.hpp) and
// initialise_principal().
void initialise_from_model(LanguageModel& model, Adapter& adapter,
                           std::optional<PrincipalStart> start);

}  // namespace clora
