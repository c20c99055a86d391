// The results of --profile as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "clora/runtime/profiling/profiler.hpp"
#include "tools/command_line/peaks_json.hpp"

namespace clora {

// {"event": "profile", "ops": [{"op", "shape" (if grouped by shape), "count", "seconds",
// "gap_seconds", "bytes", "flops", "of_ceiling" (a fraction; if known)}, ...],
// "gaps": {"count", "seconds", "wall_seconds", "pairs": [...]}, "ceilings": {...}}.
// Waits for the device.
nlohmann::ordered_json profile_json(Profiler& profiler, ProfileBy by, const RooflinePeaks& peaks);

}  // namespace clora
