// Output: the streams of a command. By default results go to stdout and remarks to stderr. With
// --json, stdout holds only JSON lines and all text goes to stderr.
//
// Lines of text may hold strings from files, models and devices, so they are passed through
// printable(). JSON is exact.
//
// A closed pipe is not an error: writing becomes a no-op, and reader_left() returns true. Not
// thread-safe.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <utility>

namespace clora {

struct OutputOptions {
  std::string_view program = "clora";
  bool json = false;
  bool quiet = false;    // results, warnings and errors only
  bool verbose = false;  // also details
};

class Output {
 public:
  explicit Output(const OutputOptions& options) : options_(options) {}

  bool json() const noexcept { return options_.json; }
  bool quiet() const noexcept { return options_.quiet; }
  bool verbose() const noexcept { return options_.verbose; }

  // The stream for text: stdout, or stderr with --json.
  std::FILE* people() const noexcept { return options_.json ? stderr : stdout; }

  // A line of the command's result. Not printed with --json; object() carries the same facts.
  template <class... Args>
  void result(fmt::format_string<Args...> format, Args&&... args) {
    if (!options_.json) line(stdout, fmt::format(format, std::forward<Args>(args)...));
  }
  // A progress or status line; omitted with --quiet.
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) {
    if (!options_.quiet) line(people(), fmt::format(format, std::forward<Args>(args)...));
  }
  // The same on stderr, for lines that may interleave with a result.
  template <class... Args>
  void remark(fmt::format_string<Args...> format, Args&&... args) {
    if (!options_.quiet) line(stderr, fmt::format(format, std::forward<Args>(args)...));
  }
  // A line on stderr, with --verbose only.
  template <class... Args>
  void detail(fmt::format_string<Args...> format, Args&&... args) {
    if (options_.verbose) line(stderr, fmt::format(format, std::forward<Args>(args)...));
  }
  // A line on stderr, always.
  template <class... Args>
  void warning(fmt::format_string<Args...> format, Args&&... args) {
    line(stderr, fmt::format("{}: warning: ", options_.program) +
                     fmt::format(format, std::forward<Args>(args)...));
  }

  // One line of JSON on stdout, with --json.
  void object(const nlohmann::ordered_json& value);

  // Writes text immediately to the people() stream: through printable() on a terminal, exact in a
  // file or a pipe, because generated text is data there.
  void text(std::string_view text);

  bool reader_left() const noexcept { return reader_left_; }

 private:
  void line(std::FILE* stream, std::string_view text);
  void write(std::FILE* stream, std::string_view text);

  OutputOptions options_;
  bool reader_left_ = false;  // stdout is closed
};

// 1234567 -> "1,234,567"
std::string grouped(long long value);
// 13421772800 -> "12.5 GiB"
std::string readable_bytes(double bytes);
// 83.4 -> "1:23", 3723 -> "1:02:03"
std::string clock_time(double seconds);

}  // namespace clora
