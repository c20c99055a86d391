#include "ops/tuned/tuned_table.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <tuple>

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kFormat = "clora tuned kernels";
constexpr int kVersion = 1;

ordered_json json_of(const TunedEntry& entry) {
  return {{"device", entry.of.device},
          {"driver", entry.driver},
          {"file", entry.of.file},
          {"kernel", entry.of.kernel},
          {"options", entry.of.options},
          {"sizes", entry.of.sizes},
          {"values", entry.values},
          {"seconds", entry.seconds},
          {"default_seconds", entry.default_seconds}};
}

ordered_json json_of(const CostEntry& entry) {
  ordered_json json{{"model", entry.model},
                    {"device", entry.device},
                    {"driver", entry.driver},
                    {"date", entry.date}};
  if (entry.for_other_devices) json["for_other_devices"] = true;
  json["values"] = entry.values;
  return json;
}

NamedNumbers numbers_of(const OrderedJsonKeys& object) {
  NamedNumbers numbers;
  for (const auto& [name, value] : object.value().items()) numbers[name] = object.integer(name);
  return numbers;
}

// The time with the defaults; earlier versions called it preset_seconds.
double default_seconds_of(const OrderedJsonKeys& json) {
  const auto earlier = json.find_number("preset_seconds");
  return earlier ? *earlier : json.number("default_seconds");
}

TunedEntry entry_of(const OrderedJsonKeys& json) {
  return {.of = {json.text("device"), json.text("file"), json.text("kernel"), json.text("options"),
                 numbers_of(json.object("sizes"))},
          .values = numbers_of(json.object("values")),
          .driver = json.text("driver"),
          .seconds = json.number("seconds"),
          .default_seconds = default_seconds_of(json)};
}

CostEntry cost_entry_of(const OrderedJsonKeys& json) {
  CostEntry entry{.model = json.text("model"),
                  .device = json.text("device"),
                  .driver = json.text("driver"),
                  .date = json.text("date"),
                  .for_other_devices = json.find_flag("for_other_devices").value_or(false),
                  .values = {}};
  const OrderedJsonKeys values = json.object("values");
  for (const auto& [name, value] : values.value().items()) entry.values[name] = values.number(name);
  return entry;
}

// A table has some hundred kernels, each of its objects fewer than ten keys.
constexpr JsonLimits kLimits{.bytes = std::size_t{16} << 20U, .depth = 8, .string_bytes = 65536};

// Calls put(keys) for each object of the array `key`.
void for_each_in(const OrderedJsonKeys& json, std::string_view key, auto put) {
  const ordered_json* all = json.find(key);
  if (all == nullptr || !all->is_array()) {
    json.wrong_kind(key, "an array", all == nullptr ? ordered_json() : *all);
  }
  for (std::size_t i = 0; i < all->size(); ++i) {
    put(OrderedJsonKeys((*all)[i], json.source(), fmt::format("{}[{}]", key, i)));
  }
}

TunedTable table_of(const OrderedJsonKeys& json) {
  if (json.text("format") != kFormat || json.integer("version") != kVersion) {
    fail(ErrorCode::invalid_file, "{}: not a tuned table of version {}; create one with 'clc tune'",
         json.source(), kVersion);
  }
  TunedTable table;
  for_each_in(json, "kernels", [&](const OrderedJsonKeys& each) { table.put(entry_of(each)); });
  if (json.find("costs") == nullptr) return table;  // of an earlier version
  for_each_in(json, "costs", [&](const OrderedJsonKeys& each) { table.put(cost_entry_of(each)); });
  return table;
}

bool is_same_kernel(const TunedKernel& a, const TunedKernel& b) {
  return std::tie(a.device, a.file, a.kernel) == std::tie(b.device, b.file, b.kernel) &&
         sorted_options(a.options) == sorted_options(b.options);
}

auto order_of(const TunedKernel& kernel) {
  return std::tuple(kernel.device, kernel.file, kernel.kernel, sorted_options(kernel.options),
                    kernel.sizes);
}

// A size that only one of them has, or that is not positive, is ignored.
double distance(const NamedNumbers& measured, const NamedNumbers& wanted) {
  double sum = 0;
  for (const auto& [name, size] : wanted) {
    const auto found = measured.find(name);
    if (found == measured.end() || found->second <= 0 || size <= 0) continue;
    sum += std::abs(std::log(static_cast<double>(found->second) / static_cast<double>(size)));
  }
  return sum;
}

}  // namespace

TunedTable TunedTable::parse(std::string_view text, std::string_view name) {
  try {
    const auto json = parse_json<ordered_json>(text, name, kLimits);
    return table_of(OrderedJsonKeys(json, name));
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("tuned table: {}; remove it or tune again", error.what()));
  }
}

TunedTable TunedTable::read(const std::filesystem::path& path) {
  if (path.empty() || !std::filesystem::exists(path)) return {};
  const MappedFile file = MappedFile::open(path);
  const auto bytes = file.bytes();
  return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

const TunedEntry* TunedTable::nearest(const TunedKernel& wanted) const {
  const TunedEntry* best = nullptr;
  double least = 0;
  for (const TunedEntry& entry : entries_) {
    if (!is_same_kernel(entry.of, wanted)) continue;
    const double apart = distance(entry.of.sizes, wanted.sizes);
    if (best != nullptr && apart >= least) continue;
    best = &entry;
    least = apart;
  }
  return best;
}

void TunedTable::put(TunedEntry entry) {
  remove(entry.of);
  const auto place = std::ranges::upper_bound(
      entries_, order_of(entry.of), {}, [](const TunedEntry& each) { return order_of(each.of); });
  entries_.insert(place, std::move(entry));
}

void TunedTable::remove(const TunedKernel& kernel) {
  std::erase_if(entries_,
                [&](const TunedEntry& each) { return order_of(each.of) == order_of(kernel); });
}

const CostEntry* TunedTable::costs_of(std::string_view model, std::string_view device) const {
  const auto found = std::ranges::find_if(
      costs_, [&](const CostEntry& each) { return each.model == model && each.device == device; });
  return found == costs_.end() ? nullptr : &*found;
}

const CostEntry* TunedTable::costs_for_other_devices(std::string_view model) const {
  const auto found = std::ranges::find_if(
      costs_, [&](const CostEntry& each) { return each.model == model && each.for_other_devices; });
  return found == costs_.end() ? nullptr : &*found;
}

void TunedTable::put(CostEntry entry) {
  const auto key = [](const CostEntry& each) { return std::tie(each.model, each.device); };
  std::erase_if(costs_, [&](const CostEntry& each) { return key(each) == key(entry); });
  costs_.insert(std::ranges::upper_bound(costs_, key(entry), {}, key), std::move(entry));
}

std::string TunedTable::text() const {
  ordered_json kernels = ordered_json::array();
  for (const TunedEntry& entry : entries_) kernels.push_back(json_of(entry));
  ordered_json costs = ordered_json::array();
  for (const CostEntry& entry : costs_) costs.push_back(json_of(entry));
  const ordered_json json{
      {"format", kFormat}, {"version", kVersion}, {"kernels", kernels}, {"costs", costs}};
  return json_text(json, 1) + '\n';
}

void TunedTable::write(const std::filesystem::path& path) const {
  write_file_atomically(path, std::string_view(text()));
}

std::vector<std::string> sorted_options(std::string_view options) {
  std::istringstream stream{std::string(options)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    if (!words.empty() && (words.back() == "-D" || words.back() == "-I")) {
      words.back() += word;
    } else {
      words.push_back(std::move(word));
    }
  }
  for (std::string& word : words) {
    if (word.starts_with("-D") && word.find('=') == std::string::npos) word += "=1";
  }
  std::ranges::sort(words);
  return words;
}

}  // namespace clora
