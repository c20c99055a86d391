// Hand-written results of clora_bench.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/clora/bench/bench_results.hpp"

namespace clora::test {

using nlohmann::json;

inline json machine() {
  return {{"date", "2026-11-21T20:00:00+00:00"},
          {"num_cpus", 2},
          {"caches", json::array()},
          {"device", "a <fast> & small device"},
          {"platform", "a platform"},
          {"driver", "3.1"},
          {"commit", "0123456789ab"},
          {"peak_copy_gbps", "20"},
          {"peak_read_gbps", "18"},
          {"peak_fma_gflops", "200"},
          {"peak_launch_us", "0.8"},
          {"peak_wake_us", "20"}};
}

// A repetition of a bench as Google Benchmark writes it.
inline json repetition(const std::string& name, double median_us, double percent = 0) {
  json entry{{"name", name + "/manual_time"}, {"run_type", "iteration"},
             {"real_time", 2 * median_us},    {"time_unit", "us"},
             {"best_us", median_us},          {"median_us", median_us}};
  if (percent > 0) {
    entry["percent_of_roofline"] = percent;
    entry["gflops"] = percent * 2;
    entry["gbps"] = percent / 5;
  }
  return entry;
}

inline json file_of(const std::vector<json>& entries) {
  return {{"context", machine()}, {"benchmarks", entries}};
}

// A run of one bench with these repetitions.
inline json run_of(const std::string& name, const std::vector<double>& samples) {
  std::vector<json> entries;
  for (const double us : samples) entries.push_back(repetition(name, us, 50));
  return file_of(entries);
}

inline BenchResults parsed(const json& file) { return parse_bench_results(file.dump(), "a test"); }

inline json many_rows() {
  std::vector<json> entries;
  for (const double us : {90, 93, 88, 91, 89}) {
    entries.push_back(repetition("a/fused/f32/1", us, 50));
    entries.push_back(repetition("a/unfused/f32/1", 2 * us, 25));
    entries.push_back(repetition("launch/replay", us));
  }
  entries.push_back({{"name", "b/fused/f32/1"},
                     {"run_type", "iteration"},
                     {"error_occurred", true},
                     {"error_message", "1 < 2 & \"so\" on"}});
  return file_of(entries);
}

}  // namespace clora::test
