#include "model/generation/grammar/gbnf.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/generation/grammar/code_points.hpp"
#include "model/text/utf8.hpp"
#include "runtime/fail.hpp"

namespace clora::grammar {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, const GrammarLimits& limits) : text_(text), limits_(limits) {}

  RuleSet parse() {
    (void)id_of("root");
    for (skip_space(true); at_ < text_.size(); skip_space(true)) parse_rule();
    for (const Rule& rule : set_.rules) {
      if (rule.expression == nullptr) bad("the rule '{}' is used, but not defined", rule.name);
    }
    return std::move(set_);
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    const std::string_view before = text_.substr(0, std::min(at_, text_.size()));
    fail(ErrorCode::invalid_argument, "grammar: line {}: {}",
         1 + std::count(before.begin(), before.end(), '\n'),
         fmt::format(format, std::forward<Args>(args)...));
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool skip(std::string_view text) {
    if (!text_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  // Skips spaces and comments, and line breaks if they may be skipped.
  void skip_space(bool with_lines) {
    for (;;) {
      const char c = peek();
      if (c == '#') {
        while (at_ < text_.size() && peek() != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || (with_lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  RuleId id_of(const std::string& name) {
    const auto [at, is_new] = ids_.emplace(name, static_cast<RuleId>(set_.rules.size()));
    if (is_new) set_.rules.push_back({name});
    return at->second;
  }

  std::string parse_name() {
    const std::size_t begin = at_;
    while (is_name_character(peek())) ++at_;
    if (at_ == begin) bad("the name of a rule is expected");
    return std::string(text_.substr(begin, at_ - begin));
  }

  void parse_rule() {
    const RuleId rule = id_of(parse_name());
    skip_space(false);
    if (!skip("::=")) bad("'::=' is expected after the name of a rule");
    skip_space(true);
    ExpressionPtr expression = parse_alternatives(false);
    if (set_.rules[rule].expression != nullptr)
      bad("the rule '{}' is defined twice", set_.rules[rule].name);
    set_.rules[rule].expression = std::move(expression);
    if (at_ < text_.size() && peek() != '\n' && peek() != '\r')
      bad("the end of the rule is expected, got '{}'", text_.substr(at_, 1));
  }

  ExpressionPtr parse_alternatives(bool in_group) {
    std::vector<ExpressionPtr> alternatives;
    for (;;) {
      alternatives.push_back(parse_sequence(in_group));
      if (!skip("|")) return choice(std::move(alternatives));
      skip_space(true);
    }
  }

  bool at_item() const {
    const char c = peek();
    return c == '"' || c == '[' || c == '(' || c == '.' || is_name_character(c);
  }

  ExpressionPtr parse_sequence(bool in_group) {
    std::vector<ExpressionPtr> parts;
    while (at_item()) {
      ExpressionPtr item = parse_item();
      skip_space(in_group);
      parts.push_back(parse_repetition(std::move(item), in_group));
      skip_space(in_group);
    }
    return parts.empty() ? literal("") : sequence(std::move(parts));
  }

  ExpressionPtr parse_item() {
    if (skip("\"")) return parse_literal();
    if (skip("[")) return parse_class();
    if (skip("(")) return parse_group();
    if (skip(".")) return utf8(CodePoints::all());
    return call(id_of(parse_name()));
  }

  ExpressionPtr parse_group() {
    if (++depth_ > limits_.source_depth)
      bad("groups must nest at most {} levels", limits_.source_depth);
    skip_space(true);
    ExpressionPtr inside = parse_alternatives(true);
    if (!skip(")")) bad("')' is expected");
    --depth_;
    return inside;
  }

  ExpressionPtr parse_literal() {
    std::string text;
    while (!skip("\"")) append_utf8(parse_character(), text);
    return literal(text);
  }

  ExpressionPtr parse_class() {
    const bool is_negated = skip("^");
    CodePoints set;
    while (!skip("]")) {
      const std::int32_t first = parse_character();
      std::int32_t last = first;
      if (peek() == '-' && !text_.substr(at_).starts_with("-]")) {
        ++at_;
        last = parse_character();
      }
      if (last < first) bad("a range of characters must go upwards");
      set.add(CodePoints::of(first, last));
    }
    return utf8(is_negated ? CodePoints::all().without(set) : set);
  }

  // One character of a literal or a class, which must be on its line.
  std::int32_t parse_character() {
    if (at_ >= text_.size() || peek() == '\n') bad("the end of a text or of a class is missing");
    if (skip("\\")) return parse_escape();
    const Utf8Char c = read_utf8(text_, at_);
    if (c.code_point < 0) bad("the grammar must be valid UTF-8");
    at_ += c.length;
    return c.code_point;
  }

  std::int32_t parse_escape() {
    const char c = peek();
    ++at_;
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return parse_hex(2);
      case 'u':
        return parse_hex(4);
      case 'U':
        return parse_hex(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return c;
      default:
        bad("an escape must be one of \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xHH \\uHHHH "
            "\\UHHHHHHHH");
    }
  }

  std::int32_t parse_hex(int digits) {
    std::uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const int digit = hex_value(peek());
      if (digit < 0) bad("{} hexadecimal digits are expected", digits);
      value = value * 16 + static_cast<std::uint32_t>(digit);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
      bad("U+{:04X} is no character", value);
    return static_cast<std::int32_t>(value);
  }

  ExpressionPtr parse_repetition(ExpressionPtr item, bool in_group) {
    if (skip("*")) return repeat(std::move(item), 0, kUnbounded);
    if (skip("+")) return repeat(std::move(item), 1, kUnbounded);
    if (skip("?")) return repeat(std::move(item), 0, 1);
    if (!skip("{")) return item;
    skip_space(in_group);
    const std::size_t min = parse_count();
    std::size_t max = min;
    if (skip(",")) {
      skip_space(in_group);
      max = peek() == '}' ? kUnbounded : parse_count();
    }
    if (!skip("}")) bad("'}}' is expected");
    if (max < min) bad("the counts of a repetition must not decrease");
    return repeat(std::move(item), min, max);
  }

  std::size_t parse_count() {
    constexpr std::size_t kMaxCount = 1'000'000;
    if (peek() < '0' || peek() > '9') bad("a count is expected");
    std::size_t count = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      count = count * 10 + static_cast<std::size_t>(peek() - '0');
      if (count > kMaxCount) bad("a count must be at most {}", kMaxCount);
    }
    skip_space(false);
    return count;
  }

  std::string_view text_;
  const GrammarLimits& limits_;
  std::size_t at_ = 0, depth_ = 0;
  std::map<std::string, RuleId> ids_;
  RuleSet set_;
};

}  // namespace

RuleSet rules_of_gbnf(std::string_view text, const GrammarLimits& limits) {
  require(text.size() <= limits.source_bytes, "grammar: at most {} bytes are supported, got {}",
          limits.source_bytes, text.size());
  return GbnfParser(text, limits).parse();
}

}  // namespace clora::grammar
