// Trace: a timeline of the host's threads and the devices' queues on a common clock, written as a
// file that ui.perfetto.dev and chrome://tracing open.
//
// A Trace belongs to the caller: it is assigned to ContextConfig::trace and shared by the Contexts
// created with it. Host events come from TraceSpan, device events from the Profiler (which also
// needs ContextConfig::profile). At most max_events are kept, 24 bytes each; later ones are counted
// and dropped.
// Threads: any, at the same time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "clora/runtime/profiling/roofline.hpp"

namespace clora {

class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMaxEvents = 1'000'000;

  explicit Trace(std::size_t max_events = kMaxEvents);

  // Adds a track to the device tracks. `name` is shown in the viewer.
  std::uint32_t device_track(std::string_view name);
  // The track of the calling thread, created on first use.
  std::uint32_t host_track();
  // The kind of an event: its displayed name, a detail (a shape, a file) and its cost; equal kinds
  // share a number.
  std::uint32_t kind(std::string_view name, std::string_view detail = {}, Cost cost = {});
  // Adds an event that lasted from begin to end. REQUIRES: track and kind are of this Trace.
  void add(std::uint32_t track, std::uint32_t kind, Clock::time_point begin, Clock::time_point end);

  std::size_t events() const;
  std::size_t dropped() const;

  // The trace in Chrome's JSON format: complete events ("X"), sorted by track and time, in
  // microseconds since the Trace was created.
  std::string json() const;
  // Writes json() to a file, all or nothing. Errors: io.
  void write(const std::filesystem::path& path) const;

 private:
  struct Track {
    std::string name;
    bool device = false;
  };
  struct Kind {
    std::string name;
    std::string detail;
    Cost cost;
    friend auto operator<=>(const Kind&, const Kind&) = default;
  };
  struct Event {
    std::int64_t begin_ns;  // since start_
    std::int64_t end_ns;
    std::uint32_t track;
    std::uint32_t kind;
  };

  std::vector<Event> sorted() const;
  std::string line_of(const Track& track, std::size_t number) const;
  std::string line_of(const Event& event) const;

  const Clock::time_point start_ = Clock::now();
  const std::size_t max_events_;
  mutable std::mutex mutex_;  // guards all below
  std::vector<Track> tracks_;
  std::map<std::thread::id, std::uint32_t> threads_;
  std::vector<Kind> kinds_;
  std::map<Kind, std::uint32_t, std::less<>> kind_numbers_;
  std::vector<Event> events_;
  std::size_t dropped_ = 0;
};

// Records the time from here to the end of the scope on the calling thread's track. With a null
// trace it costs one comparison: it reads no clock and allocates nothing.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, std::string_view name, std::string_view detail = {}) : trace_(trace) {
    if (trace_ != nullptr) begin(name, detail);
  }
  ~TraceSpan() {
    if (trace_ != nullptr) end();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  void begin(std::string_view name, std::string_view detail);
  void end() noexcept;

  Trace* trace_;
  std::uint32_t kind_ = 0;
  Trace::Clock::time_point begin_{};
};

}  // namespace clora
