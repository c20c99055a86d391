// The options of `clc bench` and the values derived from them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/clc/bench/bench_report.hpp"
#include "tools/clc/bench/kernel_timing.hpp"
#include "tools/clc/call/call_options.hpp"
#include "tools/clc/call/comparison.hpp"

namespace clora {

struct BenchOptions {
  CallOptions call;
  std::string bytes, flops;  // given as expressions
  std::string caches = "both";
  double seconds = 0.5;
  int rounds = 0;  // 0: determined by `seconds`
  std::string peak = "f32";
  std::filesystem::path roofline;
  std::vector<std::string> references;
  Tolerance tolerance;
  // The baseline kernel; an empty option defaults to that of the new kernel.
  std::string old_file, old_options, old_kernel, old_global, old_local;

  std::string old_name() const { return old_file.empty() ? call.file : old_file; }
};

void add_bench_options(CLI::App& command, BenchOptions& options);

std::vector<CacheState> cache_states(const BenchOptions& options);
TimingPlan timing_plan(const BenchOptions& options, CacheState caches);
// The call of the baseline kernel; nullopt without a baseline.
std::optional<CallOptions> old_call(const BenchOptions& options);

// The device's peaks, measured unless they are stored.
RooflinePeaks peaks_for(const BenchOptions& options, Output& output);
// Errors: UsageError, if the device does not have the requested peak.
BenchPeaks chosen_peaks(const BenchOptions& options, const RooflinePeaks& peaks);

}  // namespace clora
