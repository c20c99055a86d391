// What --profile tells as JSON, and measured ceilings as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/profiler.hpp"

namespace clora {

// {"event": "profile", "ops": [{"op", "shape" (where told apart), "count", "seconds",
// "gap_seconds", "bytes", "flops", "of_ceiling" (a share; where it is known)}, ...],
// "gaps": {"count", "seconds", "wall_seconds", "pairs": [...]}, "ceilings": {...}}.
// Waits for the device.
nlohmann::ordered_json profile_json(Profiler& profiler, ProfileBy by, const Ceilings& ceilings);

// The matrix unit's peak only where one is known.
nlohmann::ordered_json ceilings_json(const Ceilings& ceilings);

}  // namespace clora
