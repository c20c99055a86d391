// Hooks: what a Context tells the program that embeds it. The library itself never prints.
//
// A hook is called on a thread that uses the Context, never from a driver's callback, and must not
// call back into the Context. What a hook throws is swallowed: a log cannot break the work.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace clora {

enum class LogLevel { debug, info, warning, error };
std::string_view name_of(LogLevel level);

// Device memory taken (bytes > 0) or given back (bytes < 0) by the pool.
struct AllocationEvent {
  std::int64_t bytes = 0;
  std::string_view tag;          // name_of(MemoryTag)
  std::size_t in_use_bytes = 0;  // afterwards, over all tags
};

struct Hooks {
  std::function<void(LogLevel, std::string_view message)> log;
  std::function<void(const AllocationEvent&)> allocation;
  // One observation of a named quantity, for a metrics system: "program_cache.hits" 1,
  // "program_cache.build_seconds" 0.42, ... docs/embedding.md lists them.
  std::function<void(std::string_view name, double value)> metric;

  // Each calls its hook where one is set, and lets nothing out.
  void tell(LogLevel level, std::string_view message) const noexcept;
  void count(const AllocationEvent& event) const noexcept;
  void measure(std::string_view name, double value) const noexcept;
};

}  // namespace clora
