// Values as texts: Python's str(), repr() and json.dumps(). Origins of the texts in them are kept;
// what the functions add (quotes, commas, digits) is the template's. Errors: invalid_argument for
// values without such a form, and beyond the budget.
#pragma once

#include <optional>
#include <string>

#include "model/text/jinja/limits.hpp"
#include "model/text/jinja/value.hpp"

namespace clora::jinja {

// str(): the text itself, the repr of others; an undefined value is the empty text.
Text text_of(const Value& value, WorkBudget& budget);
Text repr_of(const Value& value, WorkBudget& budget);

// The shortest digits that give the same number: 1.0, 0.1, 1e+16, nan, -inf.
std::string text_of_real(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<Text> indent = {};                       // of one level
  std::optional<std::pair<Text, Text>> separators = {};  // of items, and of key and value
};
Text json_of(const Value& value, const JsonStyle& style, WorkBudget& budget);

}  // namespace clora::jinja
