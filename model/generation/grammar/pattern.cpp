#include "model/generation/grammar/pattern.hpp"

#include <utility>
#include <vector>

#include "model/generation/grammar/pattern_classes.hpp"

namespace clora::grammar {
namespace {

class PatternParser {
 public:
  PatternParser(std::string_view pattern, JsonRules& rules, const std::string& path,
                const GrammarLimits& limits)
      : reader_(pattern, path), rules_(rules), limits_(limits) {}

  ExpressionPtr parse() {
    std::vector<ExpressionPtr> alternatives;
    do alternatives.push_back(parse_anchored());
    while (reader_.skip("|"));
    if (reader_.peek() != PatternReader::kEnd) reader_.bad("')' is not expected");
    return choice(std::move(alternatives));
  }

 private:
  ExpressionPtr any_text() const { return repeat(rules_.character(), 0, kUnbounded); }

  ExpressionPtr parse_anchored() {
    std::vector<ExpressionPtr> parts;
    if (!reader_.skip("^")) parts.push_back(any_text());
    parts.push_back(parse_sequence());
    if (!reader_.skip("$")) parts.push_back(any_text());
    const std::int32_t next = reader_.peek();
    if (next != PatternReader::kEnd && next != '|' && next != ')')
      reader_.unsupported("$ before the end of a pattern is");
    return sequence(std::move(parts));
  }

  ExpressionPtr parse_alternatives() {
    std::vector<ExpressionPtr> alternatives;
    do alternatives.push_back(parse_sequence());
    while (reader_.skip("|"));
    return choice(std::move(alternatives));
  }

  ExpressionPtr parse_sequence() {
    std::vector<ExpressionPtr> parts;
    for (;;) {
      const std::int32_t next = reader_.peek();
      if (next == PatternReader::kEnd || next == '|' || next == ')' || next == '$') break;
      parts.push_back(parse_quantified());
    }
    return parts.empty() ? literal("") : sequence(std::move(parts));
  }

  ExpressionPtr parse_quantified() {
    ExpressionPtr atom = parse_atom();
    if (reader_.skip("*")) return quantified(std::move(atom), 0, kUnbounded);
    if (reader_.skip("+")) return quantified(std::move(atom), 1, kUnbounded);
    if (reader_.skip("?")) return quantified(std::move(atom), 0, 1);
    if (!reader_.skip("{")) return atom;
    const std::size_t min = parse_count();
    std::size_t max = min;
    if (reader_.skip(",")) max = reader_.peek() == '}' ? kUnbounded : parse_count();
    reader_.expect("}");
    if (max < min) reader_.bad("the counts of a quantifier must not decrease");
    return quantified(std::move(atom), min, max);
  }

  // Lazy or not: the same texts.
  ExpressionPtr quantified(ExpressionPtr atom, std::size_t min, std::size_t max) {
    (void)reader_.skip("?");
    const std::int32_t next = reader_.peek();
    if (next == '*' || next == '+' || next == '?' || next == '{')
      reader_.bad("a quantifier must follow a character or a group");
    return repeat(std::move(atom), min, max);
  }

  std::size_t parse_count() {
    constexpr std::size_t kMaxCount = 1'000'000;
    std::size_t count = 0;
    if (reader_.peek() < '0' || reader_.peek() > '9') reader_.bad("a count is expected");
    while (reader_.peek() >= '0' && reader_.peek() <= '9') {
      count = count * 10 + static_cast<std::size_t>(reader_.take() - '0');
      if (count > kMaxCount) reader_.bad("a count must be at most {}", kMaxCount);
    }
    return count;
  }

  ExpressionPtr parse_atom() {
    if (reader_.skip("(")) return parse_group();
    if (reader_.skip("[")) return rules_.character_of(read_class(reader_));
    if (reader_.skip("\\")) return rules_.character_of(read_escape(reader_));
    if (reader_.skip(".")) return rules_.character_of(any_but_line_breaks());
    const std::int32_t c = reader_.peek();
    if (c == '^') reader_.unsupported("^ after the beginning of a pattern is");
    if (c == '*' || c == '+' || c == '?' || c == '{' || c == '}' || c == ']')
      reader_.bad("this character must be escaped");
    (void)reader_.take();
    return rules_.character_of(CodePoints::of(c, c));
  }

  ExpressionPtr parse_group() {
    if (!reader_.skip("?:") && reader_.peek() == '?')
      reader_.unsupported("lookaround, names of groups and flags are");
    if (++depth_ > limits_.source_depth)
      reader_.bad("groups must nest at most {} levels", limits_.source_depth);
    ExpressionPtr inside = parse_alternatives();
    if (reader_.peek() == '$') reader_.unsupported("$ inside of a group is");
    reader_.expect(")");
    --depth_;
    return inside;
  }

  PatternReader reader_;
  JsonRules& rules_;
  const GrammarLimits& limits_;
  std::size_t depth_ = 0;
};

}  // namespace

ExpressionPtr pattern_text(std::string_view pattern, JsonRules& rules, const std::string& path,
                           const GrammarLimits& limits) {
  return PatternParser(pattern, rules, path, limits).parse();
}

}  // namespace clora::grammar
