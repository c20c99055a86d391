#include "tools/command_line/output.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <array>
#include <cmath>
#include <string>

#include "clora/runtime/files/json.hpp"
#include "tools/command_line/printable.hpp"
#include "tools/command_line/terminal_line.hpp"

namespace clora {

void Output::object(const nlohmann::ordered_json& value) {
  if (options_.json) write(stdout, json_text(value) + '\n');
}

void Output::text(std::string_view text) {
  const bool terminal = ::isatty(::fileno(people())) == 1;
  write(people(), terminal ? printable(text) : std::string(text));
}

void Output::line(std::FILE* stream, std::string_view text) {
  write(stream, printable(text) + '\n');
}

void Output::write(std::FILE* stream, std::string_view text) {
  if (stream == stdout && reader_left_) return;
  clear_terminal_line();
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0;
  if (!written && stream == stdout) reader_left_ = true;
}

std::string grouped(long long value) {
  std::string digits = std::to_string(value < 0 ? -value : value);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return fmt::format("{}{}", value < 0 ? "-" : "", digits);
}

std::string readable_bytes(double bytes) {
  constexpr std::array<std::string_view, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string clock_time(double seconds) {
  const auto rounded = static_cast<long long>(std::llround(std::max(0.0, seconds)));
  const long long hours = rounded / 3600;
  const long long minutes = rounded / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, rounded % 60);
  return fmt::format("{}:{:02}", minutes, rounded % 60);
}

}  // namespace clora
