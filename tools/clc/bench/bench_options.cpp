#include "tools/clc/bench/bench_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "clora/ops/roofline_peaks/roofline_peaks.hpp"
#include "tools/clc/call/reference_file.hpp"
#include "tools/command_line/config_file.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

void add_text(CLI::App& command, const char* name, std::string& value, const char* type,
              const char* help, const char* group) {
  command.add_option(name, value, help)->type_name(type)->group(group);
}

void add_peak_option(CLI::App& command, BenchOptions& options, const char* group) {
  const CLI::IsMember known({"f32", "matrix"});
  command.add_option("--peak", options.peak, "Arithmetic peak to compare with: f32 or matrix")
      ->type_name("NAME")
      ->check(known)
      ->capture_default_str()
      ->group(group);
  // The earlier name of --peak, not listed.
  command.add_option("--ceiling", options.peak)->check(known)->group("");
}

void add_measuring_options(CLI::App& command, BenchOptions& options) {
  const char* const group = "Measuring";
  add_text(command, "--bytes", options.bytes, "N|EXPR",
           "Bytes that a launch reads and writes (default: every array once)", group);
  add_text(command, "--flops", options.flops, "N|EXPR", "Flops per launch", group);
  command.add_option("--caches", options.caches, "State of the caches: warm, cold or both")
      ->type_name("STATE")
      ->check(CLI::IsMember({"warm", "cold", "both"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option(
          "--seconds", options.seconds,
          "Approximate device time per kernel and cache state, in seconds; 20 to 1000 launches")
      ->type_name("N")
      ->transform(NumberAbove(0, kMaxSeconds))
      ->capture_default_str()
      ->group(group);
  command.add_option("--rounds", options.rounds, "Exact number of launches instead")
      ->type_name("N")
      ->transform(Integer(1, kMaxCount))
      ->group(group);
  add_peak_option(command, options, group);
  command
      .add_option("--roofline", options.roofline,
                  "Draw the device's roofline with the kernel in it; requires --flops")
      ->type_name("FILE.svg")
      ->group(group);
}

void add_old_options(CLI::App& command, BenchOptions& options) {
  const char* const group = "Comparing";
  add_text(command, "--compare", options.old_file, "OLD.cl",
           "Also time this file's kernel, alternating with the new one, and report which is faster",
           group);
  add_text(command, "--compare-options", options.old_options, "TEXT",
           "Compiler options for the old kernel; without --compare, for the same file", group);
  add_text(command, "--compare-kernel", options.old_kernel, "NAME",
           "Name of the old kernel (default: that of the new one)", group);
  add_text(command, "--compare-global", options.old_global, "X[,Y[,Z]]",
           "Work-items of the old kernel", group);
  add_text(command, "--compare-local", options.old_local, "X[,Y[,Z]]",
           "Work-group size of the old kernel", group);
}

ContextConfig peaks_config(const BenchOptions& options) {
  ContextConfig config = config_from_environment();
  if (!options.call.common.device.empty()) config.device = options.call.common.device;
  config.variant = Variant::automatic;
  config.precision = Precision::automatic;  // also measures the matrix unit
  return config;
}

}  // namespace

void add_bench_options(CLI::App& command, BenchOptions& options) {
  add_call_options(command, options.call);
  add_measuring_options(command, options);
  add_old_options(command, options);
  add_list_option(command, "--reference", options.references,
                  "Expected array after one launch; on a mismatch nothing is timed",
                  "NAME=FILE.npy");
  add_tolerance_options(command, options.tolerance);
}

std::vector<CacheState> cache_states(const BenchOptions& options) {
  if (options.caches == "warm") return {CacheState::warm};
  if (options.caches == "cold") return {CacheState::cold};
  return {CacheState::warm, CacheState::cold};
}

TimingPlan timing_plan(const BenchOptions& options, CacheState caches) {
  TimingPlan plan{.caches = caches, .seconds = options.seconds, .least = 20};
  if (options.rounds > 0) plan.least = plan.most = options.rounds;
  return plan;
}

std::optional<CallOptions> old_call(const BenchOptions& options) {
  const bool other_place = !options.old_kernel.empty() || !options.old_global.empty() ||
                           !options.old_local.empty() || !options.old_options.empty();
  if (options.old_file.empty() && !other_place) return {};
  CallOptions call = options.call;
  if (!options.old_file.empty()) call.file = options.old_file;
  if (!options.old_kernel.empty()) call.kernel = options.old_kernel;
  if (!options.old_global.empty()) call.global = options.old_global;
  if (!options.old_local.empty()) call.local = options.old_local;
  if (!options.old_options.empty()) {
    call.common.defines.clear();
    call.common.options = options.old_options;
  }
  return call;
}

RooflinePeaks peaks_for(const BenchOptions& options, Output& output) {
  const ContextConfig config = peaks_config(options);
  const Device device = select_device(config.device);
  if (!stored_peaks(config.cache_folder, device)) {
    output.info("measuring the peaks of {} (first time only)", device.name);
  }
  return peaks_of(config);
}

BenchPeaks chosen_peaks(const BenchOptions& options, const RooflinePeaks& peaks) {
  const bool matrix = options.peak == "matrix";
  if (matrix && peaks.matrix_flops_per_second <= 0) {
    throw UsageError(
        "--peak matrix: this device has no known matrix unit ('clc devices'); use f32");
  }
  return {.bytes_per_second = peaks.bytes_per_second(),
          .flops_per_second = matrix ? peaks.matrix_flops_per_second : peaks.f32_flops_per_second,
          .arithmetic = options.peak};
}

}  // namespace clora
