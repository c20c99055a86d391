#include "model/text/jinja/literals.hpp"

#include <charconv>

#include "model/text/utf8.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {
namespace {

bool is_digit(char c, int base) {
  const int value = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : 99;
  return value < base;
}

class Unescaper {
 public:
  explicit Unescaper(std::string_view text) : text_(text) {}

  std::string read() {
    while (at_ < text_.size()) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        ++at_;
        read_escape();
      } else {
        out_ += text_[at_++];
      }
    }
    return std::move(out_);
  }

 private:
  void read_escape() {
    const char c = text_[at_++];
    constexpr std::string_view kNames = "ntrabfv\\'\"", kBytes = "\n\t\r\a\b\f\v\\'\"";
    if (const std::size_t found = kNames.find(c); found != std::string_view::npos) {
      out_ += kBytes[found];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      read_code_point(c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (is_digit(c, 8)) {
      read_octal(c);
    } else if (c != '\n') {
      out_ += '\\';
      out_ += c;
    }
  }

  std::int32_t hexadecimal(std::size_t digits) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < digits; ++i, ++at_) {
      if (at_ >= text_.size() || !is_digit(text_[at_], 16))
        fail(ErrorCode::unsupported, "an escape in a text needs {} hexadecimal digits", digits);
      const char c = text_[at_];
      value = value * 16 + static_cast<std::uint32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    if (value > 0x10FFFF) fail(ErrorCode::unsupported, "an escape in a text is above U+10FFFF");
    return static_cast<std::int32_t>(value);
  }

  // Two escapes of a surrogate pair, as JSON writes them, become one character.
  void read_code_point(std::size_t digits) {
    std::int32_t c = hexadecimal(digits);
    if (c >= 0xD800 && c < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
      at_ += 2;
      const std::int32_t low = hexadecimal(4);
      const bool is_low = low >= 0xDC00 && low < 0xE000;
      c = is_low ? 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00) : 0xFFFD;
    }
    append_utf8(c >= 0xD800 && c < 0xE000 ? 0xFFFD : c, out_);
  }

  void read_octal(char first) {
    std::int32_t value = first - '0';
    for (int i = 0; i < 2 && at_ < text_.size() && is_digit(text_[at_], 8); ++i)
      value = value * 8 + (text_[at_++] - '0');
    append_utf8(value, out_);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
};

// The length of digits with single underscores between them.
std::size_t digits_length(std::string_view text, int base) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (is_digit(text[at], base)) {
      ++at;
    } else if (text[at] == '_' && at > 0 && at + 1 < text.size() && is_digit(text[at + 1], base)) {
      ++at;
    } else {
      break;
    }
  }
  return at;
}

std::size_t exponent_length(std::string_view text) {
  if (text.empty() || (text[0] != 'e' && text[0] != 'E')) return 0;
  const std::size_t sign = text.size() > 1 && (text[1] == '+' || text[1] == '-') ? 1 : 0;
  const std::size_t digits = digits_length(text.substr(1 + sign), 10);
  return digits == 0 ? 0 : 1 + sign + digits;
}

std::string without_underscores(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '_') out += c;
  }
  return out;
}

std::string decimal(std::string_view digits, int base) {
  const std::string plain = without_underscores(digits);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value, base);
  if (error != std::errc()) fail(ErrorCode::unsupported, "an integer does not fit 64 bits");
  return std::to_string(value);
}

int base_of(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return 10;
  const char c = static_cast<char>(text[1] | 0x20);
  const int base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
  return base != 10 && is_digit(text[2], base) ? base : 10;
}

}  // namespace

std::string unescaped(std::string_view text) { return Unescaper(text).read(); }

NumberLiteral number_literal(std::string_view text, bool may_be_real) {
  if (const int base = base_of(text); base != 10) {
    const std::size_t length = digits_length(text.substr(2), base);
    return {2 + length, decimal(text.substr(2, length), base), false};
  }
  std::size_t length = digits_length(text, 10);
  bool is_real = false;
  if (may_be_real && length + 1 < text.size() && text[length] == '.' &&
      is_digit(text[length + 1], 10)) {
    length += 1 + digits_length(text.substr(length + 1), 10);
    is_real = true;
  }
  if (const std::size_t exponent = may_be_real ? exponent_length(text.substr(length)) : 0) {
    length += exponent;
    is_real = true;
  }
  if (is_real) return {length, without_underscores(text.substr(0, length)), true};
  return {length, decimal(text.substr(0, length), 10), false};
}

}  // namespace clora::jinja
