#include "tools/clc/bench/trace_summary.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using Json = nlohmann::json;
using Place = std::pair<std::string, std::string>;  // process and thread ids as text

struct Event {
  std::string name;
  double begin_us = 0, end_us = 0;
};

std::string id_of(const JsonKeys& event, std::string_view key) {
  const Json* id = event.find(key);
  return id == nullptr ? "" : json_text(*id);
}

Json events_in(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) {
    fail(ErrorCode::not_found, "trace: file '{}' does not exist", path.string());
  }
  Json document = parse_json(MappedFile::open(path).text(), path.string());
  if (document.is_array()) return document;
  const auto events = document.is_object() ? document.find("traceEvents") : document.end();
  if (events == document.end() || !events->is_array()) {
    fail(ErrorCode::invalid_file, "trace: '{}' is not a Chrome trace: it has no list of events",
         path.string());
  }
  return std::move(*events);
}

// The names that metadata events assign to processes and threads.
struct Names {
  std::map<std::string, std::string> processes;
  std::map<Place, std::string> threads;

  void take(const JsonKeys& event) {
    const std::string name = event.object("args").find_text("name").value_or("");
    const std::string kind = event.find_text("name").value_or("");
    if (kind == "process_name") processes[id_of(event, "pid")] = name;
    if (kind == "thread_name") {
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
    if (before != nullptr && event.end_us <= before->end_us) continue;  // nested event
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
  const Json all = events_in(file);
  for (const Json& each : all) {
    if (!each.is_object()) continue;
    const JsonKeys event(each, file.string(), "event");
    const std::string phase = event.find_text("ph").value_or("");
    const std::string name = event.find_text("name").value_or("?");
    if (phase == "M" && (name == "process_name" || name == "thread_name")) names.take(event);
    if (phase != "X" || event.find("ts") == nullptr) continue;
    const double begin = event.number("ts");
    events[{id_of(event, "pid"), id_of(event, "tid")}].push_back(
        {name, begin, begin + event.find_number("dur").value_or(0)});
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
