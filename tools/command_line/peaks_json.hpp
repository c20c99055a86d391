// Measured peaks as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "clora/runtime/profiling/roofline.hpp"

namespace clora {

// The matrix unit's peak is included only if known.
nlohmann::ordered_json peaks_json(const RooflinePeaks& peaks);

}  // namespace clora
