// The description of the machine and the program in the JSON's context.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <fstream>

#include "bench/support/commit.hpp"
#include "bench/support/session.hpp"

namespace clora::bench {
namespace {

// The value of the first line of /proc/cpuinfo with this key; empty on systems without that file.
std::string cpu_fact(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key)) continue;
    return line.substr(std::min(colon + 2, line.size()));
  }
  return {};
}

void add_context(const char* key, const std::string& value) {
  if (!value.empty()) benchmark::AddCustomContext(key, value);
}

void add_peaks(const RooflinePeaks& c) {
  if (!c.known()) return;
  const auto number = [](double value) { return fmt::format("{:.4g}", value); };
  add_context("peak_copy_gbps", number(c.copy_bytes_per_second * 1e-9));
  add_context("peak_read_gbps", number(c.read_bytes_per_second * 1e-9));
  add_context("peak_fma_gflops", number(c.f32_flops_per_second * 1e-9));
  if (c.matrix_flops_per_second > 0) {
    add_context("peak_matrix_gflops", number(c.matrix_flops_per_second * 1e-9));
  }
  add_context("peak_launch_us", number(c.launch_seconds * 1e6));
  add_context("peak_wake_us", number(c.wake_seconds * 1e6));
}

}  // namespace

void describe_session() {
  const Device& device = context().device();
  add_context("device", device.name);
  add_context("platform", device.platform);
  add_context("driver", device.driver);
  add_context("opencl", device.opencl_version);
  add_context("compute_units", std::to_string(device.compute_units));
  add_context("matrix_unit", std::string(name_of(device.matrix_unit)));
  add_context("cpu_model", cpu_fact("model name"));
  add_context("cpu_flags", cpu_fact("flags"));
  add_context("commit", std::string(built_commit()));
  add_context("variant", std::string(name_of(context().variant())));
  if (has(Arithmetic::bf16)) {
    add_context("variant_bf16", std::string(name_of(context(Arithmetic::bf16).variant())));
  }
  add_peaks(peaks_for(Arithmetic::bf16));
}

}  // namespace clora::bench
