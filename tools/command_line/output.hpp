// Output: where a command's words go. For people: results on stdout, remarks on stderr. With
// --json: only JSON lines on stdout, all words on stderr.
//
// Lines for people hold words of files, models and devices: they are written as printable() gives
// them. JSON is exact.
//
// A reader that goes away (a closed pipe) is no error: writing becomes silent, and reader_left()
// says so. Threads: one at a time.
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
  bool verbose = false;  // details, too
};

class Output {
 public:
  explicit Output(const OutputOptions& options) : options_(options) {}

  bool json() const noexcept { return options_.json; }
  bool quiet() const noexcept { return options_.quiet; }
  bool verbose() const noexcept { return options_.verbose; }

  // The stream for people: stdout, or stderr beside JSON.
  std::FILE* people() const noexcept { return options_.json ? stderr : stdout; }

  // A line that people came for. Not printed beside JSON: object() says the same.
  template <class... Args>
  void result(fmt::format_string<Args...> format, Args&&... args) {
    if (!options_.json) line(stdout, fmt::format(format, std::forward<Args>(args)...));
  }
  // A line that tells how it goes; --quiet leaves it out.
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) {
    if (!options_.quiet) line(people(), fmt::format(format, std::forward<Args>(args)...));
  }
  // The same on stderr, for what may come in the middle of a result.
  template <class... Args>
  void remark(fmt::format_string<Args...> format, Args&&... args) {
    if (!options_.quiet) line(stderr, fmt::format(format, std::forward<Args>(args)...));
  }
  // A line on stderr that only --verbose brings.
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

  // Text at once on the people's stream: as printable() gives it on a terminal, and exact where the
  // stream is a file or a pipe, since a generated text is data there.
  void text(std::string_view text);

  bool reader_left() const noexcept { return reader_left_; }

 private:
  void line(std::FILE* stream, std::string_view text);
  void write(std::FILE* stream, std::string_view text);

  OutputOptions options_;
  bool reader_left_ = false;  // stdout leads nowhere
};

// 1234567 -> "1,234,567"
std::string grouped(long long value);
// 13421772800 -> "12.5 GiB"
std::string readable_bytes(double bytes);
// 83.4 -> "1:23", 3723 -> "1:02:03"
std::string clock_time(double seconds);

}  // namespace clora
