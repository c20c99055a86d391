#include "tools/command_line/number_options.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

namespace clora {
namespace {

constexpr std::size_t kMaxShown = 40;

// A value may come from a file, so messages show only the beginning of a long one.
std::string shown(const std::string& text) {
  if (text.empty()) return "nothing";
  return text.size() <= kMaxShown ? text : text.substr(0, kMaxShown) + "...";
}

// from_chars() does not accept a plus sign; "+-5" stays invalid.
std::string_view without_plus(std::string_view text) {
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-';
  return plus ? text.substr(1) : text;
}

// The entire text as a number; nullopt if it is not a number or does not fit in T.
template <class T>
std::optional<T> parsed(std::string_view text) {
  text = without_plus(text);
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::string integer_range(std::int64_t low, std::int64_t high) {
  return fmt::format("a whole number from {} to {}", low, high);
}

// Rewrites a value that is in range.
bool take_integer(std::string& text, std::int64_t low, std::int64_t high) {
  const auto value = parsed<std::int64_t>(text);
  if (!value || *value < low || *value > high) return false;
  text = std::to_string(*value);
  return true;
}

// An empty string if the value is valid, otherwise the message that CLI11 appends to the option's
// name.
std::string refusal(bool accepted, const std::string& range, const std::string& text) {
  return accepted ? std::string() : fmt::format("must be {}, got {}", range, shown(text));
}

bool take_number(std::string& text, double low, double high, bool low_is_allowed) {
  const auto value = parsed<double>(text);
  if (!value || !std::isfinite(*value) || *value > high) return false;
  if (low_is_allowed ? *value < low : *value <= low) return false;
  text = without_plus(text);
  return true;
}

}  // namespace

Integer::Integer(std::int64_t low, std::int64_t high)
    : Validator(fmt::format("{}..{}", low, high)) {
  func_ = [low, high](std::string& text) {
    return refusal(take_integer(text, low, high), integer_range(low, high), text);
  };
}

Number::Number(double low, double high) : Validator(fmt::format("{}..{}", low, high)) {
  func_ = [low, high](std::string& text) {
    return refusal(take_number(text, low, high, true),
                   fmt::format("a number from {} to {}", low, high), text);
  };
}

NumberAbove::NumberAbove(double low, double high) : Validator(fmt::format(">{}..{}", low, high)) {
  func_ = [low, high](std::string& text) {
    return refusal(take_number(text, low, high, false),
                   fmt::format("a number above {} and at most {}", low, high), text);
  };
}

WordOrInteger::WordOrInteger(const std::string& word, std::int64_t low, std::int64_t high)
    : Validator(fmt::format("{}..{}", low, high)) {
  func_ = [word, low, high](std::string& text) {
    return refusal(text == word || take_integer(text, low, high),
                   fmt::format("{} or {}", word, integer_range(low, high)), text);
  };
}

}  // namespace clora
