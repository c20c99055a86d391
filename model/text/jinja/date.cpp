#include "model/text/jinja/date.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>

#include "runtime/fail.hpp"

namespace clora::jinja {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0)
    return std::nullopt;
  return value;
}

std::optional<int> month_of(std::string_view name) {
  const auto found = std::ranges::find_if(kMonths, [name](std::string_view month) {
    return name == month || name == month.substr(0, 3);
  });
  if (found == kMonths.end()) return std::nullopt;
  return static_cast<int>(found - kMonths.begin()) + 1;
}

// The three parts between separators.
std::array<std::string_view, 3> parts_of(std::string_view text, char separator) {
  const std::size_t first = std::min(text.find(separator), text.size());
  const std::size_t second = std::min(text.find(separator, first + 1), text.size());
  return {text.substr(0, first),
          text.substr(std::min(first + 1, text.size()), second - std::min(first + 1, second)),
          text.substr(std::min(second + 1, text.size()))};
}

std::chrono::year_month_day calendar(const Date& d) {
  return std::chrono::year(d.year) / std::chrono::month(static_cast<unsigned>(d.month)) /
         std::chrono::day(static_cast<unsigned>(d.day));
}

std::size_t weekday_of(const Date& date) {
  return std::chrono::weekday(std::chrono::sys_days(calendar(date))).c_encoding();
}

int day_of_year(const Date& date) {
  const std::chrono::sys_days day(calendar(date));
  return static_cast<int>((day - std::chrono::sys_days(calendar({date.year, 1, 1}))).count()) + 1;
}

std::string conversion(const Date& d, char kind) {
  const std::string_view month = kMonths.at(static_cast<std::size_t>(d.month) - 1);
  switch (kind) {
    case 'Y':
      return std::to_string(d.year);
    case 'y':
      return fmt::format("{:02}", d.year % 100);
    case 'm':
      return fmt::format("{:02}", d.month);
    case 'd':
      return fmt::format("{:02}", d.day);
    case 'e':
      return fmt::format("{:2}", d.day);
    case 'B':
      return std::string(month);
    case 'b':
    case 'h':
      return std::string(month.substr(0, 3));
    case 'A':
      return std::string(kDays.at(weekday_of(d)));
    case 'a':
      return std::string(kDays.at(weekday_of(d)).substr(0, 3));
    case 'j':
      return fmt::format("{:03}", day_of_year(d));
    case 'F':
      return fmt::format("{}-{:02}-{:02}", d.year, d.month, d.day);
    case 'D':
    case 'x':
      return fmt::format("{:02}/{:02}/{:02}", d.month, d.day, d.year % 100);
    case 'H':
    case 'M':
    case 'S':
      return "00";
    case 'I':
      return "12";
    case 'p':
      return "AM";
    case 'R':
      return "00:00";
    case 'T':
    case 'X':
      return "00:00:00";
    case '%':
      return "%";
    default:
      break;
  }
  fail(ErrorCode::invalid_argument, "strftime_now: the conversion %{} is not supported", kind);
}

}  // namespace

Date parse_date(std::string_view text) {
  const auto words = parts_of(text, ' ');
  const auto numbers = parts_of(text, '-');
  std::optional<int> day = number(words[0]), month = month_of(words[1]), year = number(words[2]);
  if (!month) {
    year = number(numbers[0]);
    month = number(numbers[1]);
    day = number(numbers[2]);
  }
  const bool fits = day && month && year && *year >= 1 && *year <= 9999;
  if (!fits || !calendar({*year, *month, *day}).ok()) {
    fail(ErrorCode::invalid_argument,
         "chat template: a date must be as '26 Jul 2024' or '2024-07-26', got '{}'",
         text.substr(0, 40));
  }
  return {*year, *month, *day};
}

std::string formatted_date(const Date& date, std::string_view format) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const bool bare = (format[i + 1] == '-' || format[i + 1] == '#') && i + 2 < format.size();
    i += bare ? 2 : 1;
    std::string part = conversion(date, format[i]);
    if (bare) part.erase(0, std::min(part.find_first_not_of("0 "), part.size() - 1));
    out += part;
  }
  return out;
}

}  // namespace clora::jinja
