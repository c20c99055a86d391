// The options of `clc bench`, and what they ask for.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/clc/bench_report.hpp"
#include "tools/clc/call_options.hpp"
#include "tools/clc/comparison.hpp"
#include "tools/clc/kernel_timing.hpp"

namespace clora {

struct BenchOptions {
  CallOptions call;
  std::string bytes, flops;  // stated, as amounts
  std::string caches = "both";
  double seconds = 0.5;
  int rounds = 0;  // 0: as `seconds` says
  std::string peak = "f32";
  std::filesystem::path roofline;
  std::vector<std::string> references;
  Tolerance tolerance;
  // Of the kernel that is compared with; what is empty is as for the new one.
  std::string old_file, old_options, old_kernel, old_global, old_local;

  std::string old_name() const { return old_file.empty() ? call.file : old_file; }
};

void add_bench_options(CLI::App& command, BenchOptions& options);

std::vector<CacheState> cache_states(const BenchOptions& options);
TimingPlan timing_plan(const BenchOptions& options, CacheState caches);
// The call of the kernel that is compared with; nothing where none is.
std::optional<CallOptions> old_call(const BenchOptions& options);

// The device's peaks, measured where that was not done yet.
RooflinePeaks peaks_for(const BenchOptions& options, Output& output);
// Errors: UsageError, where the device has not the one that is asked for.
BenchPeaks chosen_peaks(const BenchOptions& options, const RooflinePeaks& peaks);

}  // namespace clora
