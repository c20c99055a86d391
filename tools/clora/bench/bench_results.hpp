// BenchResults: the measurements of clora_bench, read from Google Benchmark's JSON
// (docs/benchmarks.md). Value types; concurrent reads are safe.
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
  std::string form;             // fused, unfused, library; "" if the name has none
  std::string rest;             // the name after op: "fused/f32/64x1024/warm"
  std::vector<double> samples;  // microseconds per op: the median of each repetition
  double best_us = 0;
  // At best_us; 0 if unknown.
  double gflops = 0;
  double gbps = 0;
  double percent_of_roofline = 0;
  std::string note;   // other figures: "318 tokens/s"
  std::string error;  // why there are no figures

  double typical_us() const;  // the median sample; 0 without samples
  // Converts a rate or percentage at best_us to typical_us().
  double typical(double at_best) const {
    return samples.empty() ? 0 : at_best * best_us / typical_us();
  }
  // Half the range of the samples as a fraction of the typical time; 0 for one sample.
  double spread() const;
};

struct BenchResults {
  std::map<std::string, std::string> context;  // device, commit, peak_fma_gflops, ...
  std::vector<BenchRow> rows;                  // in file order, grouped by op

  std::string fact(const std::string& key) const;  // "" if absent
  double number(const std::string& key) const;     // 0 if absent
  const BenchRow* find(std::string_view name) const;
};

// The name without the suffixes of Google Benchmark: "/iterations:1", "/manual_time", ...
std::string bench_name(std::string_view full_name);

// The text with null for non-finite numbers. Google Benchmark writes NaN and Infinity, which are
// not JSON, as the mean of counters that a bench lacks.
std::string strict_json(std::string_view text);

// Errors: not_found, io, invalid_file if the file is not Google Benchmark's JSON.
BenchResults read_bench_results(const std::filesystem::path& file);
// Errors: invalid_file; the message names `source`.
BenchResults parse_bench_results(std::string_view json, std::string_view source);

// 0.0713 -> "0.071 us", 485.2 -> "485 us", 2277 -> "2.28 ms"
std::string readable_time(double us);
// Three significant digits: 0.0713, 7.13, 713, 7130
std::string three_digits(double value);

}  // namespace clora
