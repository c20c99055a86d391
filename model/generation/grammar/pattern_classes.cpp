#include "model/generation/grammar/pattern_classes.hpp"

#include <initializer_list>
#include <optional>

namespace clora::grammar {
namespace {

using Range = CodePoints::Range;

CodePoints set_of(std::initializer_list<Range> ranges) {
  CodePoints set;
  for (const Range& range : ranges) set.add(CodePoints::of(range.first, range.last));
  return set;
}

CodePoints single(std::int32_t code_point) { return CodePoints::of(code_point, code_point); }

CodePoints digits() { return CodePoints::of('0', '9'); }

CodePoints word_characters() { return set_of({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}); }

// WhiteSpace and LineTerminator of ECMA-262.
CodePoints white_space() {
  return set_of({{0x09, 0x0D},
                 {0x20, 0x20},
                 {0xA0, 0xA0},
                 {0x1680, 0x1680},
                 {0x2000, 0x200A},
                 {0x2028, 0x2029},
                 {0x202F, 0x202F},
                 {0x205F, 0x205F},
                 {0x3000, 0x3000},
                 {0xFEFF, 0xFEFF}});
}

// The class of a letter, or nothing.
std::optional<CodePoints> class_of(std::int32_t letter) {
  switch (letter) {
    case 'd':
      return digits();
    case 'w':
      return word_characters();
    case 's':
      return white_space();
    case 'D':
      return CodePoints::all().without(digits());
    case 'W':
      return CodePoints::all().without(word_characters());
    case 'S':
      return CodePoints::all().without(white_space());
    default:
      return std::nullopt;
  }
}

int hex_value(std::int32_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::int32_t read_hex(PatternReader& reader, int digits) {
  std::int32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const int digit = hex_value(reader.take());
    if (digit < 0) reader.bad("{} hexadecimal digits are expected", digits);
    value = value * 16 + digit;
  }
  return value;
}

std::int32_t read_braced_hex(PatternReader& reader) {
  std::int32_t value = 0;
  while (!reader.skip("}")) {
    const int digit = hex_value(reader.take());
    if (digit < 0 || value > 0x10FFFF / 16) reader.bad("a code point is expected in \\u{{...}}");
    value = value * 16 + digit;
  }
  return value;
}

// \uHHHH, of which two may be one character.
std::int32_t read_unicode(PatternReader& reader) {
  if (reader.skip("{")) return read_braced_hex(reader);
  const std::int32_t first = read_hex(reader, 4);
  if (first < 0xD800 || first > 0xDFFF) return first;
  if (first > 0xDBFF || !reader.skip("\\u")) reader.bad("a surrogate must be in a pair");
  const std::int32_t second = read_hex(reader, 4);
  if (second < 0xDC00 || second > 0xDFFF) reader.bad("a surrogate must be in a pair");
  return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
}

CodePoints of_code_point(PatternReader& reader, std::int32_t code_point) {
  CodePoints set = single(code_point);
  if (set.empty()) reader.bad("a surrogate is no character");
  return set;
}

std::optional<std::int32_t> control_of(std::int32_t letter) {
  switch (letter) {
    case 't':
      return '\t';
    case 'n':
      return '\n';
    case 'v':
      return '\v';
    case 'f':
      return '\f';
    case 'r':
      return '\r';
    default:
      return std::nullopt;
  }
}

bool is_letter_or_digit(std::int32_t c) { return word_characters().contains(c) && c != '_'; }

// A member of a class: one character, or a class (which cannot be the end of a range).
CodePoints read_member(PatternReader& reader) {
  if (reader.skip("\\b")) return single('\b');
  if (reader.skip("\\")) return read_escape(reader);
  const std::int32_t c = reader.take();
  if (c == PatternReader::kEnd) reader.bad("']' is expected");
  return single(c);
}

std::optional<std::int32_t> only_one_of(const CodePoints& set) {
  if (set.ranges().size() != 1 || set.ranges()[0].first != set.ranges()[0].last)
    return std::nullopt;
  return set.ranges()[0].first;
}

CodePoints read_range(PatternReader& reader) {
  CodePoints first = read_member(reader);
  if (reader.peek() != '-') return first;
  (void)reader.take();
  if (reader.peek() == ']') {
    first.add(single('-'));
    return first;
  }
  const CodePoints last = read_member(reader);
  const auto from = only_one_of(first), to = only_one_of(last);
  if (!from || !to || *from > *to) reader.bad("a range of characters must go upwards");
  return CodePoints::of(*from, *to);
}

}  // namespace

CodePoints any_but_line_breaks() {
  return CodePoints::all().without(set_of({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
}

CodePoints read_escape(PatternReader& reader) {
  const std::int32_t c = reader.take();
  if (const auto set = class_of(c)) return *set;
  if (const auto control = control_of(c)) return single(*control);
  if (c == 'x') return single(read_hex(reader, 2));
  if (c == 'u') return of_code_point(reader, read_unicode(reader));
  if (c == '0' && !digits().contains(reader.peek())) return single(0);
  if (c == 'b' || c == 'B') reader.unsupported("\\b and \\B are");
  if (c == 'p' || c == 'P') reader.unsupported("\\p is");
  if (c >= '0' && c <= '9') reader.unsupported("references to groups are");
  if (c == 'k') reader.unsupported("\\k is");
  if (c == PatternReader::kEnd || is_letter_or_digit(c)) reader.bad("this escape is not known");
  return single(c);
}

CodePoints read_class(PatternReader& reader) {
  const bool is_negated = reader.skip("^");
  CodePoints set;
  while (!reader.skip("]")) set.add(read_range(reader));
  return is_negated ? CodePoints::all().without(set) : set;
}

}  // namespace clora::grammar
