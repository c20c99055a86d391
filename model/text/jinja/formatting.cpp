#include "model/text/jinja/formatting.hpp"

#include <algorithm>
#include <cmath>

#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/value_text.hpp"
#include "model/text/utf8.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {
namespace {

constexpr std::int64_t kMaxWidth = 10'000;

std::string digits_of(std::int64_t value, const FormatSpec& spec) {
  const auto magnitude =
      value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  const char* prefix = "";
  std::string digits;
  switch (spec.kind) {
    case 'x':
      digits = fmt::format("{:x}", magnitude), prefix = "0x";
      break;
    case 'X':
      digits = fmt::format("{:X}", magnitude), prefix = "0X";
      break;
    case 'o':
      digits = fmt::format("{:o}", magnitude), prefix = "0o";
      break;
    case 'b':
      digits = fmt::format("{:b}", magnitude), prefix = "0b";
      break;
    default:
      digits = std::to_string(magnitude);
      break;
  }
  return spec.alternate ? prefix + digits : digits;
}

std::string digits_of(double value, const FormatSpec& spec) {
  const double magnitude = std::abs(value);
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  switch (spec.kind) {
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", magnitude, precision);
    case 'e':
      return fmt::format("{:.{}e}", magnitude, precision);
    case 'E':
      return fmt::format("{:.{}E}", magnitude, precision);
    case 'g':
      return fmt::format("{:.{}g}", magnitude, precision);
    case 'G':
      return fmt::format("{:.{}G}", magnitude, precision);
    case '%':
      return fmt::format("{:.{}f}%", magnitude * 100, precision);
    default:
      break;
  }
  return spec.precision < 0 ? text_of_real(magnitude)
                            : fmt::format("{:.{}g}", magnitude, precision);
}

void group_thousands(std::string& digits) {
  std::size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (; end > 3; end -= 3) digits.insert(end - 3, 1, ',');
}

Text padded(const Text& text, const FormatSpec& spec, char align, WorkBudget& budget) {
  const auto width = static_cast<std::size_t>(spec.width);
  const std::size_t length = character_count(text.bytes());
  if (length >= width) return text;
  const std::size_t missing = width - length;
  const std::size_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  budget.text(text.size() + missing * spec.fill.size());
  Text out;
  for (std::size_t i = 0; i < before; ++i) out.append(spec.fill);
  out.append(text);
  for (std::size_t i = before; i < missing; ++i) out.append(spec.fill);
  return out;
}

bool is_whole_kind(char kind) {
  return kind == 0 || std::string_view("dxXob").find(kind) != std::string_view::npos;
}

Text formatted_number(const Value& value, const FormatSpec& spec, WorkBudget& budget) {
  const bool whole = value.as_integer() && is_whole_kind(spec.kind);
  const bool is_negative = *value.as_real() < 0;
  std::string digits =
      whole ? digits_of(*value.as_integer(), spec) : digits_of(*value.as_real(), spec);
  if (spec.thousands) group_thousands(digits);
  const std::string sign = is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (spec.align != '=')
    return padded(Text(sign + digits), spec, spec.align == 0 ? '>' : spec.align, budget);
  const auto missing = spec.width - static_cast<std::int64_t>(sign.size() + digits.size());
  for (std::int64_t i = 0; i < missing; ++i) digits.insert(0, spec.fill);
  return Text(sign + digits);
}

}  // namespace

Text formatted(const Value& value, const FormatSpec& spec, WorkBudget& budget) {
  require(spec.width <= kMaxWidth && spec.precision <= kMaxWidth / 10,
          "a format may have a width of at most {} and a precision of at most {}", kMaxWidth,
          kMaxWidth / 10);
  const bool is_text_kind = spec.kind == 's' || (spec.kind == 0 && value.boolean() != nullptr);
  if (value.is_number() && !is_text_kind) return formatted_number(value, spec, budget);
  require(spec.kind == 0 || spec.kind == 's', "the format '{}' needs a number, got {}", spec.kind,
          value.kind_name());
  Text text = text_of(value, budget);
  if (spec.precision >= 0)
    text = text.slice(0, byte_of_character(text.bytes(), static_cast<std::size_t>(spec.precision)));
  return padded(text, spec, spec.align == 0 ? '<' : spec.align, budget);
}

namespace {

// Reads one format specification after the colon of a replacement field.
class SpecReader {
 public:
  explicit SpecReader(std::string_view text) : text_(text) {}

  FormatSpec read() {
    FormatSpec spec;
    read_align(spec);
    if (at("+- ")) spec.sign = take();
    if (at("#")) spec.alternate = take() == '#';
    if (at("0") && spec.align == 0) {
      spec.fill = take();
      spec.align = '=';
    }
    spec.width = read_number();
    if (at(",_")) spec.thousands = take() != 0;
    if (at(".")) {
      take();
      spec.precision = read_number();
    }
    if (at("dxXobfFeEgG%s")) spec.kind = take();
    require(text_.empty(), "a format specification ends in '{}', which is not understood", text_);
    return spec;
  }

 private:
  static bool is_align(char c) {
    return std::string_view("<>^=").find(c) != std::string_view::npos;
  }

  void read_align(FormatSpec& spec) {
    if (text_.empty()) return;
    const std::size_t length = read_utf8(text_, 0).length;
    if (length < text_.size() && is_align(text_[length])) {
      spec.fill = std::string(text_.substr(0, length));
      spec.align = text_[length];
      text_.remove_prefix(length + 1);
    } else if (is_align(text_[0])) {
      spec.align = take();
    }
  }

  bool at(std::string_view set) const {
    return !text_.empty() && set.find(text_.front()) != std::string_view::npos;
  }

  char take() {
    const char c = text_.front();
    text_.remove_prefix(1);
    return c;
  }

  std::int64_t read_number() {
    std::int64_t number = 0;
    while (at("0123456789")) number = std::min<std::int64_t>(number * 10 + (take() - '0'), 1 << 30);
    return number;
  }

  std::string_view text_;
};

class BraceFormatter {
 public:
  BraceFormatter(const Text& format, const Arguments& arguments, WorkBudget& budget)
      : format_(format), arguments_(arguments), budget_(budget) {}

  Text write() {
    const std::string& bytes = format_.bytes();
    for (std::size_t i = 0; i < bytes.size();) {
      const std::size_t brace = std::min(bytes.find_first_of("{}", i), bytes.size());
      out_.append_slice(format_, i, brace);
      i = brace == bytes.size() ? brace : add_brace(brace);
    }
    return std::move(out_);
  }

 private:
  // Returns the position after the escaped brace or the replacement field.
  std::size_t add_brace(std::size_t at) {
    const std::string& bytes = format_.bytes();
    if (at + 1 < bytes.size() && bytes[at + 1] == bytes[at]) {
      out_.append_slice(format_, at, at + 1);
      return at + 2;
    }
    require(bytes[at] == '{', "format: a single '}}' in the format");
    const std::size_t end = bytes.find('}', at);
    require(end != std::string::npos, "format: a single '{{' in the format");
    add_field(std::string_view(bytes).substr(at + 1, end - at - 1));
    budget_.text(out_.size() / 8);
    return end + 1;
  }

  void add_field(std::string_view field) {
    require(field.find('{') == std::string_view::npos, "format: nested fields are not supported");
    const std::size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    const FormatSpec spec = SpecReader(field.substr(std::min(colon + 1, field.size()))).read();
    const bool quoted = name.ends_with("!r");
    if (quoted || name.ends_with("!s")) name.remove_suffix(2);
    const Value value = argument(name);
    out_.append(formatted(quoted ? Value(repr_of(value, budget_)) : value, spec, budget_));
  }

  // "0.name[key]": an argument, and parts of it.
  Value argument(std::string_view name) {
    const std::size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = root(name.substr(0, end));
    for (name.remove_prefix(end); !name.empty();) {
      const bool bracket = name.front() == '[';
      const std::size_t stop = bracket ? name.find(']') : name.find_first_of(".[", 1);
      require(!bracket || stop != std::string_view::npos, "format: '[' without ']'");
      const std::size_t size = std::min(stop, name.size());
      value = item_of(value, key_of(name.substr(1, size - 1)), budget_);
      require_defined(value);
      name.remove_prefix(bracket ? size + 1 : size);
    }
    return value;
  }

  static bool is_digits(std::string_view text) {
    return !text.empty() && text.size() < 10 &&
           text.find_first_not_of("0123456789") == std::string_view::npos;
  }

  static Value key_of(std::string_view text) {
    if (is_digits(text)) return std::int64_t{std::stoi(std::string(text))};
    return std::string(text);
  }

  Value root(std::string_view name) {
    if (name.empty() || is_digits(name)) {
      const std::size_t index =
          name.empty() ? next_++ : static_cast<std::size_t>(std::stoi(std::string(name)));
      require(index < arguments_.positional.size(), "format: there is no argument {}", index);
      return arguments_.positional[index];
    }
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) return value;
    }
    fail(ErrorCode::invalid_argument, "format: there is no argument '{}'", name);
  }

  const Text& format_;
  const Arguments& arguments_;
  WorkBudget& budget_;
  Text out_;
  std::size_t next_ = 0;
};

}  // namespace

Text brace_formatted(const Text& format, const Arguments& arguments, WorkBudget& budget) {
  return BraceFormatter(format, arguments, budget).write();
}

}  // namespace clora::jinja
