// clc trace: summarises a Chrome trace, or compares two of them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/clc/bench/trace_summary.hpp"
#include "tools/clc/commands/commands.hpp"
#include "tools/clc/commands/common_options.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora train ... --trace run.json      writes a trace
  clc trace run.json
  clc trace after.json --against before.json
For each device: the kernels by total time, and the kernels between which it waited for the host.
With --against: each kernel's time per launch, before and after.)";

struct TraceOptions {
  ClcOptions common;
  std::filesystem::path file, against;
  std::size_t top = 15;
};

template <class Key>
std::vector<std::pair<Key, TraceTime>> longest_first(const std::map<Key, TraceTime>& times) {
  std::vector<std::pair<Key, TraceTime>> sorted(times.begin(), times.end());
  std::ranges::stable_sort(sorted,
                           [](const auto& a, const auto& b) { return a.second.us > b.second.us; });
  return sorted;
}

double mean_us(const TraceTime& time) { return time.us / static_cast<double>(time.count); }

TraceTime sum_of(const std::map<std::pair<std::string, std::string>, TraceTime>& waits) {
  TraceTime sum;
  for (const auto& [between, wait] : waits) {
    sum.count += wait.count;
    sum.us += wait.us;
    sum.longest_us = std::max(sum.longest_us, wait.longest_us);
  }
  return sum;
}

void print_waits(Output& output, const TraceTrack& track, std::size_t top) {
  const TraceTime all = sum_of(track.waits);
  if (all.count == 0) return;
  output.result("  waits between them: {}, {:.2f} ms in all, mean {:.1f} us, longest {:.1f} us",
                all.count, all.us / 1e3, mean_us(all), all.longest_us);
  for (const auto& [between, wait] : longest_first(track.waits)) {
    if (top-- == 0) break;
    output.result("  {:10.2f} ms in {} from {} to {}, longest {:.1f} us", wait.us / 1e3, wait.count,
                  between.first, between.second, wait.longest_us);
  }
}

void print(Output& output, const TraceTrack& track, std::size_t top) {
  output.result("{}{}{}: busy {:.2f} of {:.2f} ms ({:.1f} %)", track.process,
                track.name.empty() ? "" : " ", track.name, track.busy_us / 1e3, track.span_us / 1e3,
                100 * track.busy_us / std::max(track.span_us, 1e-9));
  output.result("  {:36} {:>8} {:>12} {:>10} {:>11} {:>7}", "what", "count", "total ms", "mean us",
                "longest us", "share");
  std::size_t left = top;
  for (const auto& [name, time] : longest_first(track.events)) {
    if (left-- == 0) break;
    output.result("  {:36} {:8} {:12.2f} {:10.1f} {:11.1f} {:6.1f}%", name, time.count,
                  time.us / 1e3, mean_us(time), time.longest_us,
                  100 * time.us / std::max(track.busy_us, 1e-9));
  }
  if (track.is_device) print_waits(output, track, std::min<std::size_t>(top, 5));
}

nlohmann::ordered_json json_of(const TraceTime& time) {
  return {{"count", time.count}, {"us", time.us}, {"longest_us", time.longest_us}};
}

nlohmann::ordered_json json_of(const TraceTrack& track) {
  nlohmann::ordered_json events, waits = nlohmann::ordered_json::array();
  for (const auto& [name, time] : longest_first(track.events)) events[name] = json_of(time);
  for (const auto& [between, wait] : longest_first(track.waits)) {
    waits.push_back(json_of(wait));
    waits.back()["from"] = between.first;
    waits.back()["to"] = between.second;
  }
  return {{"process", track.process},
          {"name", track.name},
          {"device", track.is_device},
          {"busy_us", track.busy_us},
          {"span_us", track.span_us},
          {"events", events},
          {"waits", waits}};
}

// The events of all device tracks, merged.
std::map<std::string, TraceTime> device_events(const std::vector<TraceTrack>& tracks) {
  std::map<std::string, TraceTime> all;
  for (const TraceTrack& track : tracks) {
    if (!track.is_device) continue;
    for (const auto& [name, time] : track.events) {
      TraceTime& sum = all[name];
      sum.count += time.count;
      sum.us += time.us;
      sum.longest_us = std::max(sum.longest_us, time.longest_us);
    }
  }
  return all;
}

int compare(const TraceOptions& options, Output& output) {
  auto before = device_events(read_trace(options.against));
  auto after = device_events(read_trace(options.file));
  std::map<std::string, TraceTime> either = before;
  for (const auto& [name, time] : after) either[name].us = std::max(either[name].us, time.us);
  nlohmann::ordered_json all;
  output.result("{:36} {:>16} {:>16} {:>12} {:>12} {:>7}", "on devices", "count", "", "us before",
                "us after", "ratio");
  std::size_t left = options.top;
  for (const auto& [name, time] : longest_first(either)) {
    const TraceTime &old = before[name], &now = after[name];
    all[name] = {{"before", json_of(old)}, {"after", json_of(now)}};
    if (left == 0) continue;
    --left;
    const double old_us = old.count == 0 ? 0 : mean_us(old),
                 now_us = now.count == 0 ? 0 : mean_us(now);
    output.result("{:36} {:>16} {:>16} {:12.1f} {:12.1f} {:>7}", name, old.count, now.count, old_us,
                  now_us, old_us * now_us == 0 ? "" : fmt::format("{:.2f}", now_us / old_us));
  }
  output.object({{"compared", all}});
  return 0;
}

int summarise(const TraceOptions& options) {
  Output output(options.common.output);
  if (!options.against.empty()) return compare(options, output);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const TraceTrack& track : read_trace(options.file)) {
    print(output, track, options.top);
    all.push_back(json_of(track));
  }
  output.object({{"tracks", all}});
  return 0;
}

}  // namespace

void add_trace_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("trace", "Summarise a Chrome trace");
  const auto options = std::make_shared<TraceOptions>();
  command->add_option("file", options->file, "Trace file, as written by --trace")
      ->required()
      ->type_name("FILE");
  command->add_option("--against", options->against, "Earlier trace to compare with")
      ->type_name("FILE");
  command->add_option("--top", options->top, "Number of lines per table")
      ->transform(Integer(1, kMaxCount))
      ->capture_default_str()
      ->type_name("COUNT");
  add_output_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return summarise(*options); }; });
}

}  // namespace clora
