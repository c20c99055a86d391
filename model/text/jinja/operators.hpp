// The operators of expressions, with Python's meaning: integers and floats, floor division, the
// sign of a remainder, sequences. Errors: invalid_argument "unsupported operand types for +: 'str'
// and 'int'", for an operation on an undefined value, a division by zero, an integer beyond 64
// bits.
#pragma once

#include <string_view>

#include "model/text/jinja/limits.hpp"
#include "model/text/jinja/value.hpp"

namespace clora::jinja {

enum class Operator { add, subtract, multiply, divide, floor_divide, remainder, power };

Value calculate(Operator op, const Value& a, const Value& b, WorkBudget& budget);
Value negative(const Value& value);
Value positive(const Value& value);

// < of numbers, texts and sequences.
bool less(const Value& a, const Value& b, WorkBudget& budget);
bool equal(const Value& a, const Value& b, WorkBudget& budget);
// `item in container`
bool contains(const Value& container, const Value& item, WorkBudget& budget);

// value[key]; undefined if there is none.
Value item_of(const Value& value, const Value& key, WorkBudget& budget);
// value[begin:end:step]; None for a bound that is not given.
Value slice_of(const Value& value, const Value& begin, const Value& end, const Value& step,
               WorkBudget& budget);

// The items that `for` and list() visit: of lists, keys of dictionaries, characters of texts;
// nothing of an undefined value. Errors: invalid_argument for other values, "WHO: ...".
std::vector<Value> items_of(const Value& value, WorkBudget& budget, std::string_view who);

// Throws Error(invalid_argument) if the value is undefined: its use, other than to print or test
// it, is an error.
void require_defined(const Value& value);

// text % value, as printf
Text percent_formatted(const Text& format, const Value& value, WorkBudget& budget);

}  // namespace clora::jinja
