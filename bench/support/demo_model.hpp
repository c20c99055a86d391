// Where the demo model, SmolLM2-135M-Instruct, lies: CLORA_BENCH_MODEL, else where
// tools/fetch_demo_model puts it.
#pragma once

#include <filesystem>

namespace clora::bench {

std::filesystem::path demo_model_path();
// The same. Errors: io, with what to do, where it is not there.
std::filesystem::path require_demo_model();

}  // namespace clora::bench
