// Measured ceilings as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/roofline.hpp"

namespace clora {

// The matrix unit's peak only where one is known.
nlohmann::ordered_json ceilings_json(const Ceilings& ceilings);

}  // namespace clora
