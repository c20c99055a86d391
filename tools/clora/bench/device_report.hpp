// A report on a device, for an issue: what the device is, which kernels passed their self-tests
// there, and how fast the ops are (docs/benchmarks.md describes the fields).
#pragma once

#include <nlohmann/json.hpp>

#include "clora/runtime/context.hpp"
#include "tools/clora/bench/bench_results.hpp"

namespace clora {

// The names of the benches of a report: few, of each kind, in seconds on a GPU.
inline constexpr const char* kReportBenches =
    "^(gemm|gemm_backward)/fused/(f32|q4_1)/2048x1536x576(/bf16)?/|"
    "^(attention|attention_backward)/fused/f32/4x512x9x64(/bf16)?/|"
    "^rms_norm/fused/f32/|^launch/replay";

// Runs the self-test of the Context's matrix unit, if it has one of cl/matrix. The others are those
// of the cache folder: of earlier programs, and of the benches.
nlohmann::ordered_json device_report(Context& context, const BenchResults& results);

}  // namespace clora
