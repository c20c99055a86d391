// Strings and numbers of schema_compiler.hpp.
#include "model/generation/grammar/number_ranges.hpp"
#include "model/generation/grammar/pattern.hpp"
#include "model/generation/grammar/schema_compiler.hpp"
#include "model/generation/grammar/string_formats.hpp"

namespace clora::grammar {
namespace {

// The stricter of an inclusive and an exclusive bound; `sign` is 1 for lower bounds, -1 for upper.
OptionalBound bound_of(const Json& keywords, const char* inclusive, const char* exclusive,
                       int sign) {
  OptionalBound bound;
  if (const auto at = keywords.find(inclusive); at != keywords.end())
    bound = Bound{decimal_of(*at), false};
  if (const auto at = keywords.find(exclusive); at != keywords.end()) {
    const Decimal value = decimal_of(*at);
    if (!bound || sign * compare(value, bound->value) >= 0) bound = Bound{value, true};
  }
  return bound;
}

}  // namespace

ExpressionPtr SchemaCompiler::number_of(bool is_integer, const Json& keywords,
                                        const std::string& path) {
  const OptionalBound low = bound_of(keywords, "minimum", "exclusiveMinimum", 1);
  const OptionalBound high = bound_of(keywords, "maximum", "exclusiveMaximum", -1);
  if (is_integer) return integers_between(low, high);
  if (!low && !high) return any_number();
  if (low) check_digits(*low, path);
  if (high) check_digits(*high, path);
  return numbers_between(low, high);
}

ExpressionPtr SchemaCompiler::string_of(const Json& keywords, const std::string& path) {
  const bool has_length = keywords.contains("minLength") || keywords.contains("maxLength");
  const auto pattern = keywords.find("pattern"), format = keywords.find("format");
  const int count = (has_length ? 1 : 0) + (pattern != keywords.end() ? 1 : 0) +
                    (format != keywords.end() ? 1 : 0);
  if (count > 1) {
    refuse_schema(ErrorCode::unsupported, path,
                  "pattern, format and the lengths of strings cannot be combined; keep the "
                  "strictest, or express the lengths in the pattern");
  }
  std::string_view text;
  if (format != keywords.end()) {
    text = pattern_of_format(format->get_ref<const std::string&>());
    if (text.empty()) {
      refuse_schema(ErrorCode::unsupported, path_of(path, "format"),
                    "format must be one of {}, got {}; use a pattern", format_names(),
                    json_excerpt(*format));
    }
  } else if (pattern != keywords.end()) {
    text = pattern->get_ref<const std::string&>();
  } else {
    const std::size_t min = count_of(keywords, "minLength", 0);
    const std::size_t max = count_of(keywords, "maxLength", kUnbounded);
    return min > max ? nothing() : rules_.string(min, max);
  }
  return sequence({literal("\""), pattern_text(text, rules_, path, limits_), literal("\"")});
}

}  // namespace clora::grammar
