// What all benches of a run share: a Context for each arithmetic, and the device's peaks.
#pragma once

#include "bench/support/arithmetic.hpp"
#include "runtime/context.hpp"
#include "runtime/roofline.hpp"

namespace clora::bench {

// The environment's configuration with this arithmetic, whatever variant the environment names.
ContextConfig config_for(Arithmetic arithmetic);
// Whether the environment's device and variant have it; f32 always.
bool has(Arithmetic arithmetic);

// Made at first use, kept until release_session().
Context& context(Arithmetic arithmetic = Arithmetic::f32);
// One that waits after every command.
Context& patient_context();

// Frees the Contexts, which build programs for the cache when they go: to be called in main(),
// while the driver is whole.
void release_session();

// Measures the peaks, unless they are known better from earlier: other programs only ever make
// them lower. To be called once, before any bench; without it they are unknown.
void measure_peaks();
// Those that work of this arithmetic can reach: without the matrix unit for f32.
RooflinePeaks peaks_for(Arithmetic arithmetic);

// Device, driver, CPU, commit, variants and peaks for Google Benchmark's context.
void describe_session();

}  // namespace clora::bench
