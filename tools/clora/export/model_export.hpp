// Writes a model, with an adapter merged into it or alone, and verifies what was written.
#pragma once

#include "tools/clora/export/export_options.hpp"

namespace clora {

// The action of `clora fuse` and `clora quantize`; returns the exit code. The model appears at
// --out only after it was read back and compared (unless --no-verify). Errors: those of the
// writers; invalid_data if the written model computes something else.
int export_model(ExportOptions options);

}  // namespace clora
