// Measured peaks as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/roofline.hpp"

namespace clora {

// The matrix unit's peak only where one is known.
nlohmann::ordered_json peaks_json(const RooflinePeaks& peaks);

}  // namespace clora
