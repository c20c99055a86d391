#include "model/generation/grammar/code_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "model/text/utf8.hpp"

namespace clora::grammar {
namespace {

using Range = CodePoints::Range;
constexpr std::int32_t kLast = 0x10FFFF, kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

std::uint8_t byte(const std::string& text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

// All strings between two of the same length, byte by byte, whose further bytes are 80 to BF.
ExpressionPtr bytes_between(const std::string& first, const std::string& last, std::size_t at) {
  const std::uint8_t a = byte(first, at), b = byte(last, at);
  if (at + 1 == first.size()) return range(a, b);
  const std::size_t rest = first.size() - at - 1;
  const std::string lowest(first.size(), '\x80'), highest(first.size(), '\xBF');
  if (a == b) return sequence({range(a, a), bytes_between(first, last, at + 1)});
  std::vector<ExpressionPtr> parts{sequence({range(a, a), bytes_between(first, highest, at + 1)}),
                                   sequence({range(b, b), bytes_between(lowest, last, at + 1)})};
  if (b - a > 1)
    parts.push_back(
        sequence({range(static_cast<std::uint8_t>(a + 1), static_cast<std::uint8_t>(b - 1)),
                  repeat(range(0x80, 0xBF), rest, rest)}));
  return choice(std::move(parts));
}

std::string utf8_of(std::int32_t code_point) {
  std::string text;
  append_utf8(code_point, text);
  return text;
}

void append_ranges(Range range, std::vector<ExpressionPtr>& parts) {
  constexpr std::array<Range, 4> kLengths{
      {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, kLast}}};
  for (const Range& length : kLengths) {
    const std::int32_t first = std::max(range.first, length.first);
    const std::int32_t last = std::min(range.last, length.last);
    if (first <= last) parts.push_back(bytes_between(utf8_of(first), utf8_of(last), 0));
  }
}

struct Escape {
  std::int32_t code_point;
  const char* text;
};
constexpr std::array<Escape, 7> kEscapes{{{'"', "\\\""},
                                          {'\\', "\\\\"},
                                          {'\b', "\\b"},
                                          {'\f', "\\f"},
                                          {'\n', "\\n"},
                                          {'\r', "\\r"},
                                          {'\t', "\\t"}}};

CodePoints unescaped() {
  CodePoints set = CodePoints::of(0x20, kLast);
  for (const Escape& escape : kEscapes)
    set = set.without(CodePoints::of(escape.code_point, escape.code_point));
  return set;
}

ExpressionPtr hex_digit() { return choice({range('0', '9'), range('A', 'F'), range('a', 'f')}); }

ExpressionPtr one_of(std::string_view characters) {
  std::vector<ExpressionPtr> parts;
  for (const char c : characters) {
    parts.push_back(range(static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c)));
  }
  return choice(std::move(parts));
}

// The four digits of \uXXXX: no surrogate, or a high one with \u and a low one.
ExpressionPtr unicode_digits() {
  const ExpressionPtr digit = hex_digit(), d = one_of("Dd");
  const ExpressionPtr not_d = choice({range('0', '9'), one_of("ABCEFabcef")});
  return choice({sequence({not_d, repeat(digit, 3, 3)}),
                 sequence({d, range('0', '7'), repeat(digit, 2, 2)}),
                 sequence({d, one_of("89ABab"), repeat(digit, 2, 2), literal("\\u"), d,
                           one_of("CDEFcdef"), repeat(digit, 2, 2)})});
}

}  // namespace

CodePoints CodePoints::of(std::int32_t first, std::int32_t last) {
  CodePoints set;
  if (first < kFirstSurrogate && first <= last)
    set.ranges_.push_back({first, std::min(last, kFirstSurrogate - 1)});
  if (last > kLastSurrogate && first <= last)
    set.ranges_.push_back({std::max(first, kLastSurrogate + 1), last});
  return set;
}

CodePoints CodePoints::all() { return of(0, kLast); }

void CodePoints::add(const CodePoints& other) {
  std::vector<Range> all = ranges_;
  all.insert(all.end(), other.ranges_.begin(), other.ranges_.end());
  std::ranges::sort(all, {}, &Range::first);
  ranges_.clear();
  for (const Range& next : all) {
    if (!ranges_.empty() && next.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, next.last);
    } else {
      ranges_.push_back(next);
    }
  }
}

CodePoints CodePoints::without(const CodePoints& other) const {
  CodePoints result;
  for (Range left : ranges_) {
    for (const Range& removed : other.ranges_) {
      if (removed.last < left.first || removed.first > left.last) continue;
      if (removed.first > left.first) result.ranges_.push_back({left.first, removed.first - 1});
      left.first = removed.last + 1;
    }
    if (left.first <= left.last) result.ranges_.push_back(left);
  }
  return result;
}

CodePoints CodePoints::common_with(const CodePoints& other) const {
  return without(without(other));
}

bool CodePoints::contains(std::int32_t code_point) const {
  return std::ranges::any_of(ranges_, [&](const Range& range) {
    return range.first <= code_point && code_point <= range.last;
  });
}

ExpressionPtr utf8(const CodePoints& set) {
  std::vector<ExpressionPtr> parts;
  for (const Range& range : set.ranges()) append_ranges(range, parts);
  return choice(std::move(parts));
}

ExpressionPtr json_character(const CodePoints& set) {
  std::vector<ExpressionPtr> parts{utf8(set.common_with(unescaped()))};
  CodePoints rest = set.without(unescaped());
  for (const Escape& escape : kEscapes) {
    if (!rest.contains(escape.code_point)) continue;
    parts.push_back(literal(escape.text));
    rest = rest.without(CodePoints::of(escape.code_point, escape.code_point));
  }
  for (const Range& control : rest.ranges()) {
    for (std::int32_t c = control.first; c <= control.last; ++c)
      parts.push_back(literal(fmt::format("\\u{:04x}", c)));
  }
  return choice(std::move(parts));
}

ExpressionPtr any_json_character() {
  return choice({utf8(unescaped()), sequence({literal("\\"), one_of("\"\\/bfnrt")}),
                 sequence({literal("\\u"), unicode_digits()})});
}

}  // namespace clora::grammar
