// Hooks: callbacks from a Context to the program that embeds it. The library itself never prints.
//
// A hook is called on a thread that uses the Context, never from a driver's callback, and must not
// call back into the Context. Exceptions from a hook are swallowed: logging cannot fail the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace clora {

enum class LogLevel { debug, info, warning, error };
std::string_view name_of(LogLevel level);

// Device memory allocated (bytes > 0) or returned (bytes < 0) by the pool.
struct AllocationEvent {
  std::int64_t bytes = 0;
  std::string_view tag;          // name_of(MemoryTag)
  std::size_t in_use_bytes = 0;  // after the event, over all tags
};

// A program that the driver builds from source: reported once before the build and once after it.
// On pocl, kernels are compiled further at their first launch. A program that is loaded from the
// program store is not reported.
struct ProgramBuild {
  std::string_view file;   // "rms_norm.cl"
  std::size_t number = 1;  // index of the Context's builds from source, from 1
  bool finished = false;   // the report after the build, even if the build failed
  double seconds = 0;      // the duration, once finished
};

struct Hooks {
  std::function<void(LogLevel, std::string_view message)> log;
  std::function<void(const AllocationEvent&)> allocation;
  // One observation of a named quantity, for a metrics system: "program_cache.hits" 1,
  // "program_cache.build_seconds" 0.42, ... docs/embedding.md lists them.
  std::function<void(std::string_view name, double value)> metric;
  // For a progress line: a first start builds about ten to twenty programs, each in a fraction of a
  // second to a few seconds. The total number is not known in advance.
  std::function<void(const ProgramBuild&)> build;

  // Each function calls its hook if one is set, and swallows exceptions.
  void log_message(LogLevel level, std::string_view message) const noexcept;
  void count(const AllocationEvent& event) const noexcept;
  void measure(std::string_view name, double value) const noexcept;
  void report(const ProgramBuild& event) const noexcept;
};

}  // namespace clora
