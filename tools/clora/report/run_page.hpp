// A training run as one self-contained HTML page: figures, curves, adapter norms, replies, settings
// and data. Readable without its script. Pure function; thread-safe.
#pragma once

#include <string>

#include "tools/clora/report/run_record.hpp"

namespace clora {

std::string run_page(const LoggedRun& run);

// "done", "stopped", or the given word for a run without an end: it runs, or it was cut.
std::string state_of(const RunRecord& record, std::string_view without_end);

}  // namespace clora
