// The path of the demo model, SmolLM2-135M-Instruct: $CLORA_BENCH_MODEL, else the destination of
// tools/fetch_demo_model.
#pragma once

#include <filesystem>

namespace clora::bench {

std::filesystem::path demo_model_path();
// The same path. Errors: io, with advice, if the file does not exist.
std::filesystem::path require_demo_model();

}  // namespace clora::bench
