#include "tools/clora/bench_results.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/error.hpp"
#include "runtime/file.hpp"

namespace clora {
namespace {

using Json = nlohmann::json;

double microseconds_per(std::string_view unit) {
  if (unit == "ns") return 1e-3;
  if (unit == "ms") return 1e3;
  return unit == "s" ? 1e6 : 1;
}

BenchRow row_of(const std::string& name) {
  const std::size_t first = name.find('/');
  BenchRow row;
  row.name = name;
  row.op = name.substr(0, first);
  row.rest = first == std::string::npos ? "" : name.substr(first + 1);
  const std::string form = row.rest.substr(0, row.rest.find('/'));
  if (form == "fused" || form == "composed" || form == "library") row.form = form;
  return row;
}

// The row of this name; a new one stands behind the others of its op.
BenchRow& row_in(std::vector<BenchRow>& rows, const std::string& name) {
  const auto found = std::ranges::find(rows, name, &BenchRow::name);
  if (found != rows.end()) return *found;
  BenchRow row = row_of(name);
  auto place = rows.end();
  while (place != rows.begin() && std::prev(place)->op != row.op) --place;
  if (place == rows.begin()) place = rows.end();
  return *rows.insert(place, std::move(row));
}

// The figures of one repetition.
void add(BenchRow& row, const Json& entry) {
  if (entry.value("error_occurred", false)) {
    row.error = entry.value("error_message", "failed");
    return;
  }
  const double us =
      entry.value("real_time", 0.0) * microseconds_per(entry.value("time_unit", "ns"));
  const double best = entry.value("best_us", us);
  row.samples.push_back(entry.value("median_us", us));
  row.best_us = row.samples.size() == 1 ? best : std::min(row.best_us, best);
  row.gflops = std::max(row.gflops, entry.value("gflops", 0.0));
  row.gbps = std::max(row.gbps, entry.value("gbps", 0.0));
  row.percent_of_ceiling = std::max(row.percent_of_ceiling, entry.value("percent_of_ceiling", 0.0));
  row.note.clear();
  for (const auto& [key, words] : {std::pair{"tokens_per_s", "tokens/s"},
                                   {"prompt_tokens_per_s", "prompt tokens/s"},
                                   {"decode_tokens_per_s", "tokens/s decoded"},
                                   {"peak_mib", "MiB at most"},
                                   {"ratio", "of the first"}}) {
    if (!entry.contains(key)) continue;
    row.note += fmt::format("{}{} {}", row.note.empty() ? "" : ", ",
                            three_digits(entry.at(key).get<double>()), words);
  }
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

BenchResults results_of(const Json& json) {
  BenchResults results;
  for (const auto& [key, value] : json.at("context").items()) {
    if (!value.is_array()) results.context[key] = text_of(value);
  }
  for (const Json& entry : json.at("benchmarks")) {
    if (entry.value("run_type", "iteration") != "iteration") continue;  // a mean of others
    add(row_in(results.rows, bench_name(entry.at("name").get<std::string>())), entry);
  }
  return results;
}

}  // namespace

double BenchRow::typical_us() const {
  if (samples.empty()) return 0;
  std::vector<double> sorted = samples;
  std::ranges::sort(sorted);
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double BenchRow::spread() const {
  if (samples.size() < 2) return 0;
  const auto [least, most] = std::ranges::minmax(samples);
  return (most - least) / 2 / typical_us();
}

std::string BenchResults::fact(const std::string& key) const {
  const auto found = context.find(key);
  return found == context.end() ? "" : found->second;
}

double BenchResults::number(const std::string& key) const {
  const std::string text = fact(key);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

const BenchRow* BenchResults::find(std::string_view name) const {
  const auto found = std::ranges::find(rows, name, &BenchRow::name);
  return found == rows.end() ? nullptr : &*found;
}

std::string bench_name(std::string_view full_name) {
  for (;;) {
    const std::size_t slash = full_name.rfind('/');
    if (slash == std::string_view::npos) break;
    const std::string_view last = full_name.substr(slash + 1);
    const bool added = last == "manual_time" || last == "real_time" || last == "process_time" ||
                       last.starts_with("iterations:") || last.starts_with("min_time:") ||
                       last.starts_with("repeats:");
    if (!added) break;
    full_name = full_name.substr(0, slash);
  }
  return std::string(full_name);
}

BenchResults parse_bench_results(std::string_view json, std::string_view source) {
  try {
    return results_of(Json::parse(json));
  } catch (const Json::exception& error) {
    fail(ErrorCode::invalid_file,
         "bench results: '{}' must be the JSON that clora_bench --benchmark_out or clora bench "
         "--out writes: {}",
         source, error.what());
  }
}

BenchResults read_bench_results(const std::filesystem::path& file) {
  const MappedFile mapped = MappedFile::open(file);
  const auto bytes = mapped.bytes();
  return parse_bench_results({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                             file.string());
}

std::string three_digits(double value) {
  if (value == 0) return "0";
  const double rounded = std::abs(std::stod(fmt::format("{:.2e}", value)));  // 999.7 has four
  const int whole_digits = static_cast<int>(std::floor(std::log10(rounded) + 1e-9)) + 1;
  return fmt::format("{:.{}f}", value, std::clamp(3 - whole_digits, 0, 3));
}

std::string readable_time(double us) {
  if (us >= 999.5e3) return three_digits(us * 1e-6) + " s";
  if (us >= 999.5) return three_digits(us * 1e-3) + " ms";
  return three_digits(us) + " us";
}

}  // namespace clora
