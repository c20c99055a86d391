// Methods of texts (builtins.hpp): Python's str methods, but for those that cut or join.
#include <algorithm>
#include <array>

#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/characters.hpp"
#include "model/text/jinja/formatting.hpp"
#include "model/text/jinja/interpreter.hpp"
#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/parameters.hpp"
#include "model/text/jinja/text_parts.hpp"
#include "model/text/utf8.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {
namespace {

template <Text (*function)(const Text&)>
Value changed(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("a method of a str", arguments, {});
  interpreter.budget().text(subject.text()->size());
  return function(*subject.text());
}

Text title(const Text& text) {
  return titled(text, [](std::int32_t c) { return !is_letter(c); });
}

// Whether all characters are of the class, and there is one.
template <bool (*is_member)(std::int32_t)>
Value all_are(Interpreter& interpreter, const Value& subject, const Arguments&) {
  const std::string& bytes = subject.text()->bytes();
  interpreter.budget().text(bytes.size());
  for (std::size_t i = 0; i < bytes.size();) {
    const Utf8Char c = read_utf8(bytes, i);
    if (!is_member(c.code_point)) return false;
    i += c.length;
  }
  return !bytes.empty();
}

// Whether no letter is of the other case, and there is a letter.
template <bool (*is_case)(std::int32_t), bool (*is_other)(std::int32_t)>
Value has_case(Interpreter& interpreter, const Value& subject, const Arguments&) {
  const std::string& bytes = subject.text()->bytes();
  interpreter.budget().text(bytes.size());
  bool found = false;
  for (std::size_t i = 0; i < bytes.size();) {
    const Utf8Char c = read_utf8(bytes, i);
    if (is_other(c.code_point)) return false;
    found = found || is_case(c.code_point);
    i += c.length;
  }
  return found;
}

bool is_letter_or_digit(std::int32_t c) { return is_letter(c) || is_decimal(c); }

Value is_ascii(Interpreter&, const Value& subject, const Arguments&) {
  return std::ranges::all_of(subject.text()->bytes(), [](char c) { return (c & 0x80) == 0; });
}

Value is_title(Interpreter& interpreter, const Value& subject, const Arguments&) {
  const Text& text = *subject.text();
  const bool has_letter = lower(text).bytes() != upper(text).bytes();
  interpreter.budget().text(text.size());
  return has_letter && title(text).bytes() == text.bytes();
}

// The bytes between the characters `begin` and `end` of the arguments, as in s[begin:end].
struct Window {
  std::size_t begin, end;  // in bytes
};

Window window_of(const Text& text, const Parameters& p, WorkBudget& budget) {
  const auto bound = [&](std::size_t i) {
    return p.find(i) == nullptr ? Value(None{}) : *p.find(i);
  };
  if (p.find(1) == nullptr) return {0, text.size()};
  const Value head = slice_of(text, None{}, bound(1), None{}, budget);
  const Value all =
      p.find(2) == nullptr ? Value(text) : slice_of(text, None{}, bound(2), None{}, budget);
  const std::size_t end = all.text()->size();
  return {std::min(head.text()->size(), end), end};
}

template <bool at_end>
Value begins_or_ends(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p(at_end ? "endswith" : "startswith", arguments, {"prefix", "start", "end"});
  const Window window = window_of(*subject.text(), p, interpreter.budget());
  const std::string_view text =
      std::string_view(subject.text()->bytes()).substr(window.begin, window.end - window.begin);
  const auto matches = [&](const Value& part) {
    require(part.text() != nullptr, "startswith and endswith need a str, got {}", part.kind_name());
    const std::string& bytes = part.text()->bytes();
    return at_end ? text.ends_with(bytes) : text.starts_with(bytes);
  };
  const List* choices = p.value(0).list();
  if (choices == nullptr) return matches(p.value(0));
  return std::ranges::any_of(choices->items, matches);
}

// -1: not found; else the number of the character.
std::int64_t position_of(Interpreter& interpreter, const Text& text, const Parameters& p,
                         bool from_right) {
  interpreter.budget().text(text.size());
  const Window window = window_of(text, p, interpreter.budget());
  const std::string_view part = std::string_view(text.bytes()).substr(0, window.end);
  const std::string wanted = p.text(0).bytes();
  std::size_t at = from_right ? part.rfind(wanted) : part.find(wanted, window.begin);
  if (at == std::string_view::npos || at < window.begin) return -1;
  return static_cast<std::int64_t>(character_count(part.substr(0, at)));
}

template <bool from_right, bool must_find>
Value find(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("find", arguments, {"sub", "start", "end"});
  const std::int64_t position = position_of(interpreter, *subject.text(), p, from_right);
  require(!must_find || position >= 0, "index: the text does not contain '{}'",
          p.text(0).bytes().substr(0, 40));
  return position;
}

Value count(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("count", arguments, {"sub", "start", "end"});
  const Text& text = *subject.text();
  const Text wanted = p.text(0);
  const Window window = window_of(text, p, interpreter.budget());
  const Text part = text.slice(window.begin, window.end);
  if (wanted.empty()) return static_cast<std::int64_t>(character_count(part.bytes()) + 1);
  return static_cast<std::int64_t>(split(part, &wanted, -1, interpreter.budget()).size()) - 1;
}

Value format(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  return brace_formatted(*subject.text(), arguments, interpreter.budget());
}

enum class Side { left, right, both };

template <Side side>
Value justified(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("ljust, rjust or center", arguments, {"width", "fillchar"});
  const Text& text = *subject.text();
  const auto length = static_cast<std::int64_t>(character_count(text.bytes()));
  const std::int64_t missing = std::max<std::int64_t>(p.integer(0) - length, 0);
  const std::int64_t half = missing / 2 + (missing & p.integer(0) & 1);  // as CPython's center
  const std::int64_t left = side == Side::left ? 0 : side == Side::right ? missing : half;
  return filled(text, left, missing - left, p.text(1, " ").bytes(), interpreter.budget());
}

Value zero_filled(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("zfill", arguments, {"width"});
  const Text& text = *subject.text();
  const auto length = static_cast<std::int64_t>(character_count(text.bytes()));
  const std::int64_t missing = std::max<std::int64_t>(p.integer(0) - length, 0);
  const bool has_sign = text.bytes().starts_with('-') || text.bytes().starts_with('+');
  Text out = text.slice(0, has_sign ? 1 : 0);
  out.append(
      filled(text.slice(has_sign ? 1 : 0, text.size()), missing, 0, "0", interpreter.budget()));
  return out;
}

constexpr std::array<Builtin, 28> kMethods{{
    {"capitalize", changed<capitalized>},
    {"casefold", changed<lower>},
    {"lower", changed<lower>},
    {"upper", changed<upper>},
    {"title", changed<title>},
    {"swapcase", changed<with_case_swapped>},
    {"isalpha", all_are<is_letter>},
    {"isalnum", all_are<is_letter_or_digit>},
    {"isdigit", all_are<is_decimal>},
    {"isdecimal", all_are<is_decimal>},
    {"isnumeric", all_are<is_decimal>},
    {"isspace", all_are<is_python_white>},
    {"isascii", is_ascii},
    {"isupper", has_case<is_upper, is_lower>},
    {"islower", has_case<is_lower, is_upper>},
    {"istitle", is_title},
    {"startswith", begins_or_ends<false>},
    {"endswith", begins_or_ends<true>},
    {"find", find<false, false>},
    {"rfind", find<true, false>},
    {"index", find<false, true>},
    {"rindex", find<true, true>},
    {"count", count},
    {"format", format},
    {"ljust", justified<Side::left>},
    {"rjust", justified<Side::right>},
    {"center", justified<Side::both>},
    {"zfill", zero_filled},
}};

}  // namespace

std::span<const Builtin> text_methods() { return kMethods; }

}  // namespace clora::jinja
