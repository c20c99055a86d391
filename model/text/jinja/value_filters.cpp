// Filters of numbers and of values of any kind (builtins.hpp).
#include <array>
#include <charconv>
#include <cmath>

#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/interpreter.hpp"
#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/parameters.hpp"
#include "model/text/jinja/text_parts.hpp"
#include "model/text/jinja/value_text.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {
namespace {

Value otherwise(Interpreter&, const Value& subject, const Arguments& arguments) {
  const Parameters p("default", arguments, {"default_value", "boolean"});
  const bool replaced = subject.is_undefined() || (p.flag(1, false) && !subject.truth());
  if (!replaced) return subject;
  return p.find(0) == nullptr ? Value("") : *p.find(0);
}

Value attribute(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("attr", arguments, {"name"});
  if (subject.dict() != nullptr) return Value::undefined("a dict has no attributes");
  return interpreter.attribute_of(subject, p.text(0).bytes());
}

std::string number_text(const Value& value) {
  return value.text() == nullptr ? std::string() : stripped(*value.text(), {}, nullptr).bytes();
}

std::optional<double> parsed_real(std::string text) {
  if (text.starts_with('+')) text.erase(0, 1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parsed_integer(std::string text, int base) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.erase(0, 1);
  const char* prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : " ";
  if (text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == prefix[1]) text.erase(0, 2);
  std::erase(text, '_');
  if (text.empty() || text[0] == '-') return std::nullopt;
  if (negative) text.insert(text.begin(), '-');
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> truncated(double value) {
  if (!(std::abs(value) < 9.2e18)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

Value to_integer(Interpreter&, const Value& subject, const Arguments& arguments) {
  const Parameters p("int", arguments, {"default", "base"});
  require_defined(subject);
  const std::int64_t base = p.integer(1, 10);
  require(base >= 2 && base <= 36, "int: the base must be from 2 to 36, got {}", base);
  std::optional<std::int64_t> value = subject.as_integer();
  if (const double* real = subject.real()) value = truncated(*real);
  if (subject.text() != nullptr) {
    value = parsed_integer(number_text(subject), static_cast<int>(base));
    if (const auto real = value ? std::nullopt : parsed_real(number_text(subject)))
      value = truncated(*real);
  }
  if (value) return *value;
  return p.find(0) == nullptr ? Value(std::int64_t{0}) : *p.find(0);
}

Value to_real(Interpreter&, const Value& subject, const Arguments& arguments) {
  const Parameters p("float", arguments, {"default"});
  require_defined(subject);
  const auto value =
      subject.text() != nullptr ? parsed_real(number_text(subject)) : subject.as_real();
  if (value) return *value;
  return p.find(0) == nullptr ? Value(0.0) : *p.find(0);
}

Value magnitude(Interpreter&, const Value& subject, const Arguments&) {
  require_defined(subject);
  require(subject.is_number(), "abs needs a number, got {}", subject.kind_name());
  if (const auto i = subject.as_integer()) return *i < 0 ? negative(*i) : Value(*i);
  return std::abs(*subject.real());
}

// As Python, to the even neighbour of a half; `digits` may be negative.
double rounded(double value, std::int64_t digits) {
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / unit) * unit;
  }
  return *parsed_real(fmt::format("{:.{}f}", value, digits));
}

Value round(Interpreter&, const Value& subject, const Arguments& arguments) {
  const Parameters p("round", arguments, {"precision", "method"});
  require_defined(subject);
  require(subject.is_number(), "round needs a number, got {}", subject.kind_name());
  const std::int64_t digits = p.integer(0, 0);
  require(std::abs(digits) <= 300, "round: the precision must be at most 300, got {}", digits);
  const std::string method = p.text(1, "common").bytes();
  const double value = *subject.as_real();
  if (method == "common") {
    if (subject.real() == nullptr && digits >= 0) return *subject.as_integer();
    const double result = std::isfinite(value) ? rounded(value, digits) : value;
    return subject.real() == nullptr ? Value(static_cast<std::int64_t>(result)) : Value(result);
  }
  require(method == "ceil" || method == "floor",
          "round: the method must be common, ceil or floor, got '{}'", method);
  const double unit = std::pow(10.0, static_cast<double>(digits));
  return (method == "ceil" ? std::ceil(value * unit) : std::floor(value * unit)) / unit;
}

Text indentation_of(const Value& value) {
  if (value.text() != nullptr) return *value.text();
  require(value.as_integer().has_value(), "tojson: 'indent' must be an int or a str, got {}",
          value.kind_name());
  const std::int64_t width = std::max<std::int64_t>(*value.as_integer(), 0);
  require(width <= 1000, "tojson: 'indent' must be at most 1000, got {}", width);
  return Text(std::string(static_cast<std::size_t>(width), ' '));
}

Value to_json(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.ensure_ascii = p.flag(0, false), .sort_keys = p.flag(3, false)};
  if (p.find(1) != nullptr && !p.find(1)->is_none()) style.indent = indentation_of(*p.find(1));
  if (p.find(2) != nullptr && !p.find(2)->is_none()) {
    const List* pair = p.find(2)->list();
    const bool fits = pair != nullptr && pair->items.size() == 2 &&
                      pair->items[0].text() != nullptr && pair->items[1].text() != nullptr;
    require(fits, "tojson: 'separators' must be two texts");
    style.separators = {*pair->items[0].text(), *pair->items[1].text()};
  }
  return json_of(subject, style, interpreter.budget());
}

constexpr std::array<Builtin, 8> kFilters{{
    {"default", otherwise},
    {"d", otherwise},
    {"attr", attribute},
    {"int", to_integer},
    {"float", to_real},
    {"abs", magnitude},
    {"round", round},
    {"tojson", to_json},
}};

}  // namespace

std::span<const Builtin> value_filters() { return kFilters; }

}  // namespace clora::jinja
