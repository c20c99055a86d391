// BenchResults: what clora_bench measured, read from Google Benchmark's JSON (docs/benchmarks.md).
// Values; reading is thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

// One bench with all its repetitions.
struct BenchRow {
  std::string name;             // "softmax/fused/f32/64x1024/warm"
  std::string op;               // "softmax"
  std::string form;             // fused, composed, library; "" where the name has none
  std::string rest;             // what comes after op: "fused/f32/64x1024/warm"
  std::vector<double> samples;  // microseconds of one op: each repetition's median
  double best_us = 0;
  // At best_us; 0: not known.
  double gflops = 0;
  double gbps = 0;
  double percent_of_roofline = 0;
  std::string note;   // other figures: "318 tokens/s"
  std::string error;  // why there are no figures

  double typical_us() const;  // the median sample; 0 where there is none
  // A rate or share at best_us as it is at typical_us().
  double typical(double at_best) const {
    return samples.empty() ? 0 : at_best * best_us / typical_us();
  }
  // Half the distance from the least sample to the largest as a share of the typical; 0 for one.
  double spread() const;
};

struct BenchResults {
  std::map<std::string, std::string> context;  // device, commit, ceiling_fma_gflops, ...
  std::vector<BenchRow> rows;                  // in the order of the file, those of an op together

  std::string fact(const std::string& key) const;  // "" where there is none
  double number(const std::string& key) const;     // 0 where there is none
  const BenchRow* find(std::string_view name) const;
};

// The name without what Google Benchmark appends: "/iterations:1", "/manual_time", ...
std::string bench_name(std::string_view full_name);

// The text with null for the numbers that are not finite: Google Benchmark writes NaN and Infinity
// where a mean of figures that a bench lacks is asked for, which is not JSON.
std::string strict_json(std::string_view text);

// Errors: not_found, io, invalid_file for what is no JSON of Google Benchmark's.
BenchResults read_bench_results(const std::filesystem::path& file);
// Errors: invalid_file, which names `source`.
BenchResults parse_bench_results(std::string_view json, std::string_view source);

// 0.0713 -> "0.071 us", 485.2 -> "485 us", 2277 -> "2.28 ms"
std::string readable_time(double us);
// Three digits: 0.0713, 7.13, 713, 7130
std::string three_digits(double value);

}  // namespace clora
