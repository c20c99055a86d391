#include "tools/clc/trace_summary.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "runtime/error.hpp"

namespace clora {
namespace {

using Json = nlohmann::json;
using Place = std::pair<std::string, std::string>;  // process and thread, as they are written

struct Event {
  std::string name;
  double begin_us = 0, end_us = 0;
};

std::string id_of(const Json& event, const char* key) {
  const auto found = event.find(key);
  return found == event.end() ? "" : found->dump();
}

Json parsed(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file)) {
    fail(ErrorCode::not_found, "trace: there is no file '{}'", file.string());
  }
  std::ifstream stream(file);
  try {
    Json json = Json::parse(stream);
    const Json events = json.is_array() ? std::move(json) : json.at("traceEvents");
    if (events.is_array()) return events;
  } catch (const Json::exception& error) {
    fail(ErrorCode::invalid_file, "trace: '{}' is no Chrome trace: {}", file.string(),
         error.what());
  }
  fail(ErrorCode::invalid_file, "trace: '{}' is no Chrome trace: its events are no list",
       file.string());
}

// Names that metadata events give to processes and threads.
struct Names {
  std::map<std::string, std::string> processes;
  std::map<Place, std::string> threads;

  void take(const Json& event) {
    const std::string name = event.at("args").value("name", "");
    if (event.value("name", "") == "process_name") processes[id_of(event, "pid")] = name;
    if (event.value("name", "") == "thread_name") {
      threads[{id_of(event, "pid"), id_of(event, "tid")}] = name;
    }
  }
};

void add(TraceTime& time, double us) {
  ++time.count;
  time.us += us;
  time.longest_us = std::max(time.longest_us, us);
}

TraceTrack summed_up(std::vector<Event> events) {
  std::ranges::stable_sort(events, [](const Event& a, const Event& b) {
    return std::tuple(a.begin_us, -a.end_us) < std::tuple(b.begin_us, -b.end_us);
  });
  TraceTrack track;
  const Event* before = nullptr;
  for (const Event& event : events) {
    add(track.events[event.name], event.end_us - event.begin_us);
    if (before != nullptr && event.end_us <= before->end_us) continue;  // within it
    const double from =
        before == nullptr ? event.begin_us : std::max(before->end_us, event.begin_us);
    track.busy_us += event.end_us - from;
    if (before != nullptr && event.begin_us > before->end_us) {
      add(track.waits[{before->name, event.name}], event.begin_us - before->end_us);
    }
    before = &event;
  }
  if (before != nullptr) track.span_us = before->end_us - events.front().begin_us;
  return track;
}

bool is_device(const std::string& process) {
  std::string lower = process;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower.find("device") != std::string::npos || lower.find("gpu") != std::string::npos;
}

}  // namespace

std::vector<TraceTrack> read_trace(const std::filesystem::path& file) {
  std::map<Place, std::vector<Event>> events;
  Names names;
  for (const Json& each : parsed(file)) {
    if (!each.is_object()) continue;
    const std::string phase = each.value("ph", "");
    if (phase == "M" && each.contains("args")) names.take(each);
    if (phase != "X" || !each.contains("ts")) continue;
    const double begin = each.at("ts").get<double>();
    events[{id_of(each, "pid"), id_of(each, "tid")}].push_back(
        {each.value("name", "?"), begin, begin + each.value("dur", 0.0)});
  }
  std::vector<TraceTrack> tracks;
  for (auto& [place, own] : events) {
    tracks.push_back(summed_up(std::move(own)));
    tracks.back().process = names.processes[place.first];
    tracks.back().name = names.threads[place];
    tracks.back().is_device = is_device(tracks.back().process);
  }
  if (tracks.empty()) {
    fail(ErrorCode::invalid_file, "trace: '{}' has no complete events", file.string());
  }
  std::ranges::stable_sort(tracks, std::ranges::greater{}, &TraceTrack::is_device);
  return tracks;
}

}  // namespace clora
