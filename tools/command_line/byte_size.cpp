#include "tools/command_line/byte_size.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>
#include <string>

namespace clora {
namespace {

constexpr double kMaxBytes = 1e15;

struct Unit {
  std::string_view name;  // in lower case
  double bytes;
};
constexpr std::array<Unit, 14> kUnits{{{"", 1},
                                       {"b", 1},
                                       {"kb", 1e3},
                                       {"mb", 1e6},
                                       {"gb", 1e9},
                                       {"tb", 1e12},
                                       {"kib", 1024.0},
                                       {"mib", 1048576.0},
                                       {"gib", 1073741824.0},
                                       {"tib", 1099511627776.0},
                                       {"k", 1024.0},
                                       {"m", 1048576.0},
                                       {"g", 1073741824.0},
                                       {"t", 1099511627776.0}}};

std::optional<double> bytes_of(const std::string& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string unit = text.substr(digits);
  std::erase(unit, ' ');
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto found = std::ranges::find(kUnits, std::string_view(unit), &Unit::name);
  const std::string number = text.substr(0, digits);
  if (found == kUnits.end() || number.empty() || std::ranges::count(number, '.') > 1 ||
      number.front() == '.' || number.back() == '.') {
    return std::nullopt;
  }
  const double bytes = std::floor(std::stod(number) * found->bytes);
  if (!(bytes >= 1 && bytes <= kMaxBytes)) return std::nullopt;
  return bytes;
}

}  // namespace

ByteSize::ByteSize() : CLI::Validator("SIZE") {
  func_ = [](std::string& text) -> std::string {
    const std::optional<double> bytes = bytes_of(text);
    if (!bytes) return fmt::format("must be a size such as 512MiB or 8GiB, got {}", text);
    text = fmt::format("{:.0f}", *bytes);
    return {};
  };
}

}  // namespace clora
