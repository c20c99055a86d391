#include "tools/clora/bench/bench_results.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <sstream>

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using Json = nlohmann::json;

double microseconds_per(std::string_view unit) {
  if (unit == "ns") return 1e-3;
  if (unit == "ms") return 1e3;
  return unit == "s" ? 1e6 : 1;
}

// Earlier versions named the form `unfused` `composed` and the word `recompute` `again`.
std::string current_name(const std::string& name) {
  std::string current;
  std::istringstream parts(name);
  std::string part;
  for (int i = 0; std::getline(parts, part, '/'); ++i) {
    if (i == 1 && part == "composed") part = "unfused";
    if (i > 1 && part == "again") part = "recompute";
    current += (i > 0 ? "/" : "") + part;
  }
  return current;
}

BenchRow row_of(const std::string& name) {
  const std::size_t first = name.find('/');
  BenchRow row;
  row.name = name;
  row.op = name.substr(0, first);
  row.rest = first == std::string::npos ? "" : name.substr(first + 1);
  const std::string form = row.rest.substr(0, row.rest.find('/'));
  if (form == "fused" || form == "unfused" || form == "library") row.form = form;
  return row;
}

// The row of this name; a new row is inserted after the others of its op.
BenchRow& row_in(std::vector<BenchRow>& rows, const std::string& name) {
  const auto found = std::ranges::find(rows, name, &BenchRow::name);
  if (found != rows.end()) return *found;
  BenchRow row = row_of(name);
  auto place = rows.end();
  while (place != rows.begin() && std::prev(place)->op != row.op) --place;
  if (place == rows.begin()) place = rows.end();
  return *rows.insert(place, std::move(row));
}

void note_figures(BenchRow& row, const JsonKeys& entry) {
  row.note.clear();
  for (const auto& [key, words] : {std::pair{"tokens_per_s", "tokens/s"},
                                   {"prompt_tokens_per_s", "prompt tokens/s"},
                                   {"decode_tokens_per_s", "tokens/s decoded"},
                                   {"peak_mib", "MiB peak"},
                                   {"ratio", "of the first"}}) {
    const std::optional<double> figure = entry.find_number(key);
    if (!figure) continue;
    row.note += fmt::format("{}{} {}", row.note.empty() ? "" : ", ", three_digits(*figure), words);
  }
}

// Adds the figures of one repetition. A non-finite figure is null, which counts as absent.
void add(BenchRow& row, const JsonKeys& entry) {
  if (entry.find_flag("error_occurred").value_or(false)) {
    row.error = entry.find_text("error_message").value_or("failed");
    return;
  }
  const std::optional<double> time = entry.find_number("real_time");
  const double us =
      time.value_or(0) * microseconds_per(entry.find_text("time_unit").value_or("ns"));
  const double best = entry.find_number("best_us").value_or(us);
  const double median = entry.find_number("median_us").value_or(us);
  if (std::min({us, best, median}) <= 0) {
    row.error = "its time is not a number above 0";
    return;
  }
  row.samples.push_back(median);
  row.best_us = row.samples.size() == 1 ? best : std::min(row.best_us, best);
  const auto raise = [&entry](double& figure, const char* key) {
    figure = std::max(figure, entry.find_number(key).value_or(0));
  };
  raise(row.gflops, "gflops");
  raise(row.gbps, "gbps");
  raise(row.percent_of_roofline, "percent_of_roofline");
  raise(row.percent_of_roofline, "percent_of_ceiling");  // as written by earlier versions
  note_figures(row, entry);
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

// The key of a fact; earlier versions wrote ceiling_copy_gbps for peak_copy_gbps.
std::string fact_key(const std::string& key) {
  constexpr std::string_view kEarlier = "ceiling_";
  return key.starts_with(kEarlier) ? "peak_" + key.substr(kEarlier.size()) : key;
}

BenchResults results_of(const JsonKeys& json) {
  BenchResults results;
  for (const auto& [key, value] : json.object("context").value().items()) {
    if (!value.is_array()) results.context[fact_key(key)] = text_of(value);
  }
  const Json* benches = json.find("benchmarks");
  if (benches == nullptr || !benches->is_array()) {
    fail(ErrorCode::invalid_file, "{}: benchmarks must be an array", json.source());
  }
  for (std::size_t i = 0; i < benches->size(); ++i) {
    const JsonKeys entry(benches->at(i), json.source(), fmt::format("benchmarks[{}]", i));
    if (entry.find_text("run_type").value_or("iteration") != "iteration") continue;  // a mean
    add(row_in(results.rows, current_name(bench_name(entry.text("name")))), entry);
  }
  return results;
}

// The length of a non-finite number (NaN, Infinity) with its sign; 0 if there is none. No other
// token of JSON begins with these words.
std::size_t no_number_length(std::string_view text) {
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  for (const std::string_view word : {"NaN", "nan", "Infinity", "inf"}) {
    if (text.substr(sign).starts_with(word)) return sign + word.size();
  }
  return 0;
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

std::string strict_json(std::string_view text) {
  std::string strict;
  strict.reserve(text.size());
  bool quoted = false;
  while (!text.empty()) {
    const std::size_t no_number = quoted ? 0 : no_number_length(text);
    const std::size_t length = no_number > 0 ? no_number : (quoted && text[0] == '\\' ? 2 : 1);
    strict += no_number > 0 ? "null" : text.substr(0, length);
    if (text[0] == '"') quoted = !quoted;
    text.remove_prefix(std::min(length, text.size()));
  }
  return strict;
}

BenchResults parse_bench_results(std::string_view json, std::string_view source) {
  try {
    const Json document = parse_json(strict_json(json), source);
    return results_of(JsonKeys(document, source));
  } catch (const Error& error) {
    fail(ErrorCode::invalid_file,
         "bench results: '{}' must be JSON written by clora_bench --benchmark_out or clora bench "
         "--out: {}",
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
  const double rounded = std::abs(std::stod(fmt::format("{:.2e}", value)));  // 999.7 -> 1000
  const int integer_digits = static_cast<int>(std::floor(std::log10(rounded) + 1e-9)) + 1;
  return fmt::format("{:.{}f}", value, std::clamp(3 - integer_digits, 0, 3));
}

std::string readable_time(double us) {
  if (us >= 999.5e3) return three_digits(us * 1e-6) + " s";
  if (us >= 999.5) return three_digits(us * 1e-3) + " ms";
  return three_digits(us) + " us";
}

}  // namespace clora
