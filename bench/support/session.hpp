// State shared by all benches of a run: a Context for each arithmetic, and the device's peaks.
#pragma once

#include "bench/support/arithmetic.hpp"
#include "clora/runtime/context.hpp"
#include "clora/runtime/profiling/profiler.hpp"
#include "clora/runtime/profiling/roofline.hpp"

namespace clora::bench {

// The configuration of the environment with this arithmetic, whatever variant the environment
// names.
ContextConfig config_for(Arithmetic arithmetic);
// CLORA_BENCH_PROFILE: benches print the device time by op of one more run; the Contexts' queues
// have profiling, which slows the device down a little.
bool wants_profile();
// By op, or with CLORA_BENCH_PROFILE=shape by op and shape.
ProfileBy profile_by();
// Whether the environment's device and variant support it; always true for f32.
bool has(Arithmetic arithmetic);

// Created at first use, destroyed by release_session().
Context& context(Arithmetic arithmetic = Arithmetic::f32);
// A Context that waits after every command.
Context& synchronous_context();

// Destroys the Contexts, whose destructors build programs for the cache. Must be called in main(),
// while the driver is still loaded.
void release_session();

// Measures the peaks and takes the best of these and the stored ones, because other programs only
// ever lower a measurement. Must be called once, before any bench; without it the peaks are
// unknown.
void measure_peaks();
// The peaks that work of this arithmetic can reach: without the matrix unit for f32.
RooflinePeaks peaks_for(Arithmetic arithmetic);

// Device, driver, CPU, commit, variants and peaks for Google Benchmark's context.
void describe_session();

}  // namespace clora::bench
