#include "bench/support/session.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "clora/ops/roofline_peaks/roofline_peaks.hpp"

namespace clora::bench {
namespace {

Variant variant_for(Arithmetic arithmetic) {
  const ContextConfig config = config_for(arithmetic);
  return resolve(config.variant, config.precision, select_device(config.device));
}

enum class Use { f32, bf16, patient };
using Contexts = std::map<Use, std::unique_ptr<Context>>;

Contexts& contexts() {
  static Contexts all;
  return all;
}

Context& created_once(Use use, const std::function<ContextConfig()>& config) {
  std::unique_ptr<Context>& context = contexts()[use];
  if (context == nullptr) context = std::make_unique<Context>(config());
  return *context;
}

RooflinePeaks& shared_peaks() {
  static RooflinePeaks peaks;
  return peaks;
}

RooflinePeaks best_of(const RooflinePeaks& a, const RooflinePeaks& b) {
  return {.copy_bytes_per_second = std::max(a.copy_bytes_per_second, b.copy_bytes_per_second),
          .read_bytes_per_second = std::max(a.read_bytes_per_second, b.read_bytes_per_second),
          .f32_flops_per_second = std::max(a.f32_flops_per_second, b.f32_flops_per_second),
          .matrix_flops_per_second = std::max(a.matrix_flops_per_second, b.matrix_flops_per_second),
          .barrier_seconds = std::min(a.barrier_seconds, b.barrier_seconds),
          .launch_seconds = std::min(a.launch_seconds, b.launch_seconds),
          .wake_seconds = std::min(a.wake_seconds, b.wake_seconds)};
}

}  // namespace

ContextConfig config_for(Arithmetic arithmetic) {
  ContextConfig config = config_from_environment();
  if (arithmetic == Arithmetic::bf16) config.precision = Precision::automatic;
  config.variant = variant_with(arithmetic, config.variant);
  config.profile = wants_profile();
  return config;
}

bool wants_profile() { return std::getenv("CLORA_BENCH_PROFILE") != nullptr; }

ProfileBy profile_by() {
  const char* by = std::getenv("CLORA_BENCH_PROFILE");
  return by != nullptr && std::string_view(by) == "shape" ? ProfileBy::shape : ProfileBy::op;
}

bool has(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::f32 ||
         variant_for(Arithmetic::bf16) != variant_for(Arithmetic::f32);
}

Context& context(Arithmetic arithmetic) {
  return created_once(arithmetic == Arithmetic::f32 ? Use::f32 : Use::bf16,
                      [&] { return config_for(arithmetic); });
}

Context& synchronous_context() {
  return created_once(Use::patient, [] {
    ContextConfig config = config_for(Arithmetic::f32);
    config.max_commands_in_flight = 1;
    return config;
  });
}

void release_session() { contexts().clear(); }

void measure_peaks() {
  const ContextConfig config = config_for(Arithmetic::bf16);
  const Device device = select_device(config.device);
  const std::optional<RooflinePeaks> stored = stored_peaks(config.cache_folder, device);
  shared_peaks() = measured_peaks_of(config);
  if (!stored) return;
  shared_peaks() = best_of(*stored, shared_peaks());
  store_peaks(config.cache_folder, device, shared_peaks());
}

RooflinePeaks peaks_for(Arithmetic arithmetic) {
  RooflinePeaks peaks = shared_peaks();
  if (arithmetic == Arithmetic::f32) peaks.matrix_flops_per_second = 0;
  return peaks;
}

}  // namespace clora::bench
