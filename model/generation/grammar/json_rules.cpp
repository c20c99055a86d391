#include "model/generation/grammar/json_rules.hpp"

#include <fmt/format.h>

#include <utility>

namespace clora::grammar {
namespace {

ExpressionPtr white_space() {
  return choice({literal(""), literal(" "),
                 sequence({literal("\n"), choice({repeat(literal(" "), 0, kMaxIndent),
                                                  repeat(literal("\t"), 0, kMaxTabs)})})});
}

ExpressionPtr digits(std::size_t min, std::size_t max) { return repeat(range('0', '9'), min, max); }

}  // namespace

JsonRules::JsonRules() {
  add("#");
  set_.characters.push_back(add("a character", any_json_character(), true));
  gap_ = add("white space", white_space(), true);
  control_ = add("a control character", json_character(CodePoints::of(0, 0x1F)), true);
  beyond_ascii_ = add("a character", json_character(CodePoints::of(0x80, 0x10FFFF)), true);
  value_ = add("any value");
  set(value_, choice({string(), any_number(), literal("true"), literal("false"), literal("null"),
                      any_object(), any_array()}));
}

RuleId JsonRules::add(std::string name, ExpressionPtr expression, bool is_fragment) {
  set_.rules.push_back({std::move(name), std::move(expression), is_fragment});
  return static_cast<RuleId>(set_.rules.size() - 1);
}

ExpressionPtr JsonRules::separator() const { return sequence({literal(","), gap()}); }

ExpressionPtr JsonRules::string(std::size_t min, std::size_t max) const {
  return sequence({literal("\""), repeat(character(), min, max), literal("\"")});
}

// Small sets are written where they are used; others are rules, so that many uses cost little.
ExpressionPtr JsonRules::character_of(const CodePoints& set) {
  if (set.empty()) return nothing();
  const bool is_small = set.ranges().front().first >= 0x20 && set.ranges().back().last < 0x80;
  if (is_small) return json_character(set);
  std::string name;
  for (const CodePoints::Range& range : set.ranges())
    name += fmt::format("{:x}-{:x} ", range.first, range.last);
  const auto [at, is_new] = classes_.emplace(name, static_cast<RuleId>(size()));
  if (is_new) {
    (void)add("a class of characters", json_character(set), true);
    CodePoints line_breaks = CodePoints::of(0x2028, 0x2029);
    line_breaks.add(CodePoints::of(0, 0x1F));
    if (CodePoints::all().without(set).without(line_breaks).empty())
      set_.characters.push_back(at->second);
  }
  return call(at->second);
}

ExpressionPtr JsonRules::member(ExpressionPtr key, ExpressionPtr value) const {
  return sequence({std::move(key), literal(":"), optional(literal(" ")), std::move(value)});
}

ExpressionPtr JsonRules::bracketed(const char* open, ExpressionPtr elements, bool may_be_empty,
                                   const char* close) const {
  ExpressionPtr inside = sequence({std::move(elements), gap()});
  if (may_be_empty) inside = optional(std::move(inside));
  return sequence({literal(open), gap(), std::move(inside), literal(close)});
}

ExpressionPtr JsonRules::object(ExpressionPtr elements, bool may_be_empty) const {
  return bracketed("{", std::move(elements), may_be_empty, "}");
}

ExpressionPtr JsonRules::array(ExpressionPtr elements, bool may_be_empty) const {
  return bracketed("[", std::move(elements), may_be_empty, "]");
}

ExpressionPtr JsonRules::any_object() const {
  return object(list({}, member(string(), any_value()), separator(), 1, kUnbounded), true);
}

ExpressionPtr JsonRules::any_array() const {
  return array(list({}, any_value(), separator(), 1, kUnbounded), true);
}

ExpressionPtr json_string(const std::string& text) {
  return literal(json_text(nlohmann::ordered_json(text)));
}

ExpressionPtr any_number() {
  const ExpressionPtr sign = choice({literal(""), literal("+"), literal("-")});
  return sequence({optional(literal("-")),
                   choice({literal("0"), sequence({range('1', '9'), digits(0, kMaxDigits - 1)})}),
                   optional(sequence({literal("."), digits(1, kMaxDigits)})),
                   optional(sequence({choice({literal("e"), literal("E")}), sign,
                                      digits(1, kMaxExponentDigits)}))});
}

ExpressionPtr json_value(const nlohmann::ordered_json& value, const JsonRules& rules) {
  if (!value.is_structured() || value.empty()) return literal(json_text(value));
  std::vector<ExpressionPtr> elements;
  for (const auto& [key, element] : value.items()) {
    ExpressionPtr inside = json_value(element, rules);
    elements.push_back(value.is_array() ? inside : rules.member(json_string(key), inside));
  }
  const std::size_t count = elements.size();
  ExpressionPtr inside = list(std::move(elements), nullptr, rules.separator(), count, count);
  return value.is_array() ? rules.array(inside, false) : rules.object(inside, false);
}

RuleSet rules_of_any_json_object() {
  JsonRules rules;
  rules.set(0, rules.any_object());
  return std::move(rules).take();
}

}  // namespace clora::grammar
