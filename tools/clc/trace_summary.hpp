// What a Chrome trace says in numbers: which kernels took the time, where devices waited.
// Reads traces of --trace and of others, as far as they have complete events ("X").
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace clora {

struct TraceTime {
  std::size_t count = 0;
  double us = 0;          // all of them
  double longest_us = 0;  // one of them
};

struct TraceTrack {
  std::string process, name;  // "device", "NVIDIA H200"
  bool is_device = false;
  std::map<std::string, TraceTime> events;                         // by name
  std::map<std::pair<std::string, std::string>, TraceTime> waits;  // between neighbours
  double busy_us = 0;  // under any event, nested ones once
  double span_us = 0;  // from the first event's begin to the last one's end
};

// The tracks with events, devices first. Events that another one of their track holds are counted
// by name, and neither as busy time nor beside a wait.
// Errors: not_found, io; invalid_file, where it is no trace.
std::vector<TraceTrack> read_trace(const std::filesystem::path& file);

}  // namespace clora
