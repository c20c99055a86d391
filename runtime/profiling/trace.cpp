#include "clora/runtime/profiling/trace.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "clora/runtime/files/file.hpp"

namespace clora {
namespace {

// Process numbers in the viewer: one groups the host's threads, the other the devices' queues.
constexpr int kHost = 1, kDevices = 2;

// A JSON string. Bytes from 128 on are copied unchanged: names and paths are UTF-8.
std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::int64_t nanoseconds(Trace::Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

std::string microseconds(std::int64_t ns) {
  return fmt::format("{:.3f}", static_cast<double>(ns) * 1e-3);
}

// {"shape": ..., "bytes": ..., "GB/s": ...}: known values only.
std::string arguments(std::string_view detail, const Cost& cost, std::int64_t ns) {
  std::string text;
  const auto add = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", name, value);
  };
  const auto time = static_cast<double>(std::max<std::int64_t>(ns, 1));
  if (!detail.empty()) add("detail", json_string(detail));
  if (cost.bytes > 0) {
    add("bytes", fmt::format("{:.0f}", cost.bytes));
    add("GB/s", fmt::format("{:.2f}", cost.bytes / time));
  }
  if (cost.flops > 0) {
    add("flops", fmt::format("{:.0f}", cost.flops));
    add("GFLOP/s", fmt::format("{:.2f}", cost.flops / time));
  }
  return text;
}

std::string metadata(std::string_view what, int process, std::size_t track, std::string_view name) {
  return fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what,
                     process, track, json_string(name));
}

}  // namespace

Trace::Trace(std::size_t max_events) : max_events_(max_events) {}

std::uint32_t Trace::device_track(std::string_view name) {
  const std::lock_guard lock(mutex_);
  tracks_.push_back({std::string(name), true});
  return static_cast<std::uint32_t>(tracks_.size() - 1);
}

std::uint32_t Trace::host_track() {
  const std::lock_guard lock(mutex_);
  const auto next = static_cast<std::uint32_t>(tracks_.size());
  const auto [entry, inserted] = threads_.try_emplace(std::this_thread::get_id(), next);
  if (inserted) {
    tracks_.push_back({threads_.size() == 1 ? std::string("main thread")
                                            : fmt::format("thread {}", threads_.size()),
                       false});
  }
  return entry->second;
}

std::uint32_t Trace::kind(std::string_view name, std::string_view detail, Cost cost) {
  const std::lock_guard lock(mutex_);
  const auto next = static_cast<std::uint32_t>(kinds_.size());
  const auto [entry, inserted] =
      kind_numbers_.try_emplace(Kind{std::string(name), std::string(detail), cost}, next);
  if (inserted) kinds_.push_back(entry->first);
  return entry->second;
}

void Trace::add(std::uint32_t track, std::uint32_t kind, Clock::time_point begin,
                Clock::time_point end) {
  const std::lock_guard lock(mutex_);
  if (events_.size() >= max_events_) {
    ++dropped_;
    return;
  }
  const std::int64_t begin_ns = nanoseconds(begin - start_);
  events_.push_back({begin_ns, std::max(begin_ns, nanoseconds(end - start_)), track, kind});
}

std::size_t Trace::events() const {
  const std::lock_guard lock(mutex_);
  return events_.size();
}

std::size_t Trace::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

// Of two events with the same start, the longer comes first, because it encloses the other.
std::vector<Trace::Event> Trace::sorted() const {
  std::vector<Event> events = events_;
  std::ranges::stable_sort(events, [](const Event& a, const Event& b) {
    return std::tuple(a.track, a.begin_ns, -a.end_ns) < std::tuple(b.track, b.begin_ns, -b.end_ns);
  });
  return events;
}

std::string Trace::line_of(const Track& track, std::size_t number) const {
  return metadata("thread_name", track.device ? kDevices : kHost, number, track.name);
}

std::string Trace::line_of(const Event& event) const {
  const Kind& kind = kinds_[event.kind];
  const std::int64_t ns = event.end_ns - event.begin_ns;
  return fmt::format(R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
                     json_string(kind.name), tracks_[event.track].device ? kDevices : kHost,
                     event.track, microseconds(event.begin_ns), microseconds(ns),
                     arguments(kind.detail, kind.cost, ns));
}

std::string Trace::json() const {
  const std::lock_guard lock(mutex_);
  std::string text = fmt::format(
      "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"dropped_events\":{}}},\n"
      "\"traceEvents\":[\n",
      dropped_);
  text += metadata("process_name", kHost, 0, "host") + ",\n";
  text += metadata("process_name", kDevices, 0, "device");
  for (std::size_t t = 0; t < tracks_.size(); ++t) text += ",\n" + line_of(tracks_[t], t);
  for (const Event& event : sorted()) text += ",\n" + line_of(event);
  return text + "\n]}\n";
}

void Trace::write(const std::filesystem::path& path) const { write_file_atomically(path, json()); }

void TraceSpan::begin(std::string_view name, std::string_view detail) {
  kind_ = trace_->kind(name, detail);
  begin_ = Trace::Clock::now();
}

void TraceSpan::end() noexcept {
  const auto now = Trace::Clock::now();
  try {
    trace_->add(trace_->host_track(), kind_, begin_, now);
  } catch (...) {  // out of memory: the event is lost, the work continues
  }
}

}  // namespace clora
