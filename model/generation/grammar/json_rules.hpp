// JsonRules: a RuleSet under construction whose texts are JSON, with the rules that every such set
// has: one character of a string, white space, any value. Used by one thread.
//
// White space is optional and bounded, so that a model cannot write it without end: a space after a
// colon; after a comma, after an opening bracket and before a closing one a space, or a line break
// and at most kMaxIndent spaces or kMaxTabs tabs. None elsewhere.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "clora/runtime/files/json.hpp"
#include "model/generation/grammar/code_points.hpp"
#include "model/generation/grammar/expression.hpp"

namespace clora::grammar {

inline constexpr std::size_t kMaxIndent = 64, kMaxTabs = 32;
// Of numbers without bounds: digits before the point, after it, and of the exponent, so that any
// reader of 64-bit floating point accepts them.
inline constexpr std::size_t kMaxDigits = 20, kMaxExponentDigits = 2;

class JsonRules {
 public:
  // Rule 0 is to be set by the caller.
  JsonRules();

  RuleId add(std::string name, ExpressionPtr expression = nullptr, bool is_fragment = false);
  void set(RuleId rule, ExpressionPtr expression) {
    set_.rules[rule].expression = std::move(expression);
  }
  std::size_t size() const { return set_.rules.size(); }
  RuleSet take() && { return std::move(set_); }

  ExpressionPtr gap() const { return call(gap_); }
  ExpressionPtr separator() const;  // between elements
  ExpressionPtr character() const { return call(set_.characters.front()); }
  // A control character, or one beyond ASCII, of a string.
  ExpressionPtr control_character() const { return call(control_); }
  ExpressionPtr character_beyond_ascii() const { return call(beyond_ascii_); }
  ExpressionPtr any_value() const { return call(value_); }

  // min to max characters, in quotes.
  ExpressionPtr string(std::size_t min = 0, std::size_t max = kUnbounded) const;
  // One character of the set, as json_character().
  ExpressionPtr character_of(const CodePoints& set);
  // A key, which is in quotes, and its value.
  ExpressionPtr member(ExpressionPtr key, ExpressionPtr value) const;
  // In brackets, `elements`, which are one or more; `may_be_empty`: or none.
  ExpressionPtr object(ExpressionPtr elements, bool may_be_empty) const;
  ExpressionPtr array(ExpressionPtr elements, bool may_be_empty) const;
  ExpressionPtr any_object() const;
  ExpressionPtr any_array() const;

 private:
  ExpressionPtr bracketed(const char* open, ExpressionPtr elements, bool may_be_empty,
                          const char* close) const;

  RuleSet set_;
  std::map<std::string, RuleId> classes_;  // of characters, by the text of their ranges
  RuleId gap_ = 0, control_ = 0, beyond_ascii_ = 0, value_ = 0;
};

// The characters of a string in JSON, with quotes; escapes only where RFC 8259 requires them.
ExpressionPtr json_string(const std::string& text);
ExpressionPtr any_number();
// A value as it is, with the white space of the rules.
ExpressionPtr json_value(const nlohmann::ordered_json& value, const JsonRules& rules);

RuleSet rules_of_any_json_object();

}  // namespace clora::grammar
