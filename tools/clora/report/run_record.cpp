#include "tools/clora/report/run_record.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"
#include "tools/command_line/toml_options.hpp"

namespace clora {
namespace {

using Json = nlohmann::ordered_json;

// Lines of a log are short, but for samples and norms; a damaged file may hold others.
constexpr JsonLimits kLineLimits{.bytes = 1U << 20U, .depth = 8};

// Numbers of events that are no series: they count or repeat what others show.
constexpr std::array<std::string_view, 2> kNoSeries{"step", "seconds"};

std::optional<double> number_in(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

std::optional<double> number_in(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found == event.end() ? std::nullopt : number_in(*found);
}

std::string text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// "rewards/margin" -> "rewards", "margin"
std::pair<std::string, std::string> group_and_name(const std::string& key) {
  const std::size_t slash = key.find('/');
  if (slash == std::string::npos) return {key, {}};
  return {key.substr(0, slash), key.substr(slash + 1)};
}

}  // namespace

void RunRecord::add_number(const std::string& event, const std::string& group,
                           const std::string& name, SeriesPoint point) {
  const auto found = std::ranges::find_if(series_, [&](const Series& series) {
    return series.group == group && series.name == name && series.event == event;
  });
  Series& series =
      found != series_.end() ? *found : series_.emplace_back(Series{group, name, event, {}});
  series.points.push_back(point);
}

void RunRecord::add_numbers(const Json& event, std::int64_t step) {
  const std::string kind = text_in(event, "event");
  for (const auto& [key, value] : event.items()) {
    if (std::ranges::find(kNoSeries, key) != kNoSeries.end()) continue;
    if (value.is_object()) {
      for (const auto& [inner, number] : value.items()) {
        if (const auto found = number_in(number)) add_number(kind, key, inner, {step, *found});
      }
    } else if (const auto found = number_in(value)) {
      const auto [group, name] = group_and_name(key);
      add_number(kind, group, name, {step, *found});
    }
  }
}

void RunRecord::add_start(const Json& event) {
  start_ = event;
  planned_steps_ = static_cast<std::int64_t>(number_in(event, "steps").value_or(0));
  const auto after = static_cast<std::int64_t>(number_in(event, "resumed_step").value_or(0));
  end_ = RunEnd::cut;
  if (after > 0) {
    resumed_.push_back(after);
    seconds_known_ = seconds_known_ && seconds_.has_value();
  }
  earlier_seconds_ += seconds_.value_or(0);
  seconds_.reset();
}

void RunRecord::add_samples(const Json& event, std::int64_t step) {
  SamplesAtStep at{step, {}};
  const auto list = event.find("samples");
  if (list == event.end() || !list->is_array()) return;
  for (const Json& one : *list) {
    if (!one.is_object()) continue;
    at.samples.push_back({text_in(one, "prompt"), text_in(one, "wanted"), text_in(one, "base"),
                          text_in(one, "adapter")});
  }
  samples_.push_back(std::move(at));
}

void RunRecord::add_norms(const Json& event, std::int64_t step) {
  NormsAtStep at{step, {}};
  const auto norms = event.find("norms");
  if (norms == event.end() || !norms->is_object()) return;
  for (const auto& [key, value] : norms->items()) {
    if (const auto norm = number_in(value)) at.norms.emplace_back(key, *norm);
  }
  norms_.push_back(std::move(at));
}

void RunRecord::add(const Json& event) {
  const std::string kind = text_in(event, "event");
  if (kind == "start") return add_start(event);
  const auto seconds = number_in(event, "seconds");
  if (seconds && (kind == "step" || kind == "done")) seconds_ = *seconds;
  if (kind == "length") {
    planned_steps_ = static_cast<std::int64_t>(number_in(event, "steps").value_or(0));
  }
  if (kind == "done") {
    const auto stopped = event.find("stopped");
    end_ = stopped != event.end() && *stopped == true ? RunEnd::stopped : RunEnd::done;
  }
  const auto number = number_in(event, "step");
  if (!number) return;
  const auto step = static_cast<std::int64_t>(*number);
  last_step_ = std::max(last_step_, step);
  if (kind == "save") {
    saved_.push_back(step);
  } else if (kind == "samples") {
    add_samples(event, step);
  } else if (kind == "norms") {
    add_norms(event, step);
  } else {
    add_numbers(event, step);
  }
}

const SeriesPoints& RunRecord::points(std::string_view event, std::string_view group,
                                      std::string_view name) const {
  static const SeriesPoints none;
  const auto found = std::ranges::find_if(series_, [&](const Series& series) {
    return series.group == group && series.name == name && series.event == event;
  });
  return found == series_.end() ? none : found->points;
}

std::optional<double> RunRecord::seconds() const {
  if (!seconds_known_ || !seconds_) return std::nullopt;
  return earlier_seconds_ + *seconds_;
}

std::optional<Json> run_event(const std::string& line) {
  try {
    auto event = parse_json<Json>(line, kLogFile, kLineLimits);
    const OrderedJsonKeys keys(event, kLogFile);
    if (!keys.find_text("event")) return std::nullopt;
    static_cast<void>(keys.find_integer("step"));  // throws if it has another type
    static_cast<void>(keys.find_number("loss"));
    return event;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<std::pair<std::string, std::string>> settings_of(std::string_view toml) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const TomlOption& option : parse_toml_options(toml, kConfigurationFile)) {
    settings.emplace_back(option.name, fmt::format("{}", fmt::join(option.values, ", ")));
  }
  return settings;
}

LoggedRun read_run(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path log = folder / kLogFile;
  if (!std::filesystem::is_regular_file(log, ignored)) {
    fail(ErrorCode::not_found,
         "compare: a run must be a folder with {}, as 'clora train' writes it; '{}' has none",
         kLogFile, folder.string());
  }
  LoggedRun run{folder.string(), {}, {}, 0};
  std::ifstream lines(log);
  if (!lines) fail(ErrorCode::io, "compare: '{}' cannot be read", log.string());
  for (std::string line; std::getline(lines, line);) {
    if (const auto event = run_event(line)) {
      run.record.add(*event);
    } else if (!lines.eof()) {  // a killed run may leave a part of its last line
      ++run.lines_left_out;
    }
  }
  if (std::filesystem::is_regular_file(folder / kConfigurationFile, ignored)) {
    run.settings = settings_of(MappedFile::open(folder / kConfigurationFile).text());
  }
  return run;
}

}  // namespace clora
