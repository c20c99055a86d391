// Summarises a Chrome trace: the time per kernel, and the idle time of devices. Reads the traces of
// --trace and of other programs, as far as they contain complete events ("X").
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace clora {

struct TraceTime {
  std::size_t count = 0;
  double us = 0;          // total
  double longest_us = 0;  // longest event
};

struct TraceTrack {
  std::string process, name;  // "device", "NVIDIA H200"
  bool is_device = false;
  std::map<std::string, TraceTime> events;                         // by name
  std::map<std::pair<std::string, std::string>, TraceTime> waits;  // between adjacent events
  double busy_us = 0;  // under any event; nested events count once
  double span_us = 0;  // from the begin of the first event to the end of the last
};

// The tracks with events, devices first. An event nested in another one of its track is counted by
// name, but neither as busy time nor as an end of a wait.
// Errors: not_found, io; invalid_file if it is not a trace.
std::vector<TraceTrack> read_trace(const std::filesystem::path& file);

}  // namespace clora
