// The tests of `is` (builtins.hpp).
#include <array>

#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/interpreter.hpp"
#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/parameters.hpp"
#include "model/text/jinja/value_text.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {
namespace {

template <bool (*holds)(const Value&)>
Value test(Interpreter&, const Value& subject, const Arguments& arguments) {
  const Parameters p("a test", arguments, {});
  return holds(subject);
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_true(const Value& v) { return v.boolean() != nullptr && *v.boolean(); }
bool is_false(const Value& v) { return v.boolean() != nullptr && !*v.boolean(); }
bool is_boolean(const Value& v) { return v.boolean() != nullptr; }
bool is_integer(const Value& v) { return v.integer() != nullptr; }
bool is_float(const Value& v) { return v.real() != nullptr; }
bool is_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.text() != nullptr; }
bool is_mapping(const Value& v) { return v.dict() != nullptr; }
bool is_callable(const Value& v) { return v.object() != nullptr && v.object()->is_callable(); }
bool is_escaped(const Value& v) { return v.text() != nullptr && v.text()->is_markup(); }
// An undefined value is an empty sequence.
bool is_sequence(const Value& v) {
  return v.text() != nullptr || v.list() != nullptr || v.dict() != nullptr || v.is_undefined();
}

std::int64_t integer_of(const Value& value) {
  require_defined(value);
  require(value.as_integer().has_value(), "a test of numbers needs an int, got {}",
          value.kind_name());
  return *value.as_integer();
}

bool is_odd(const Value& v) { return integer_of(v) % 2 != 0; }
bool is_even(const Value& v) { return integer_of(v) % 2 == 0; }

template <bool upper>
Value is_in_case(Interpreter& interpreter, const Value& subject, const Arguments&) {
  const Value text(text_of(subject, interpreter.budget()));
  return find_method(text, upper ? "isupper" : "islower")(interpreter, text, Arguments{});
}

Value divides(Interpreter&, const Value& subject, const Arguments& arguments) {
  const Parameters p("divisibleby", arguments, {"num"});
  require(p.integer(0) != 0, "divisibleby: the number must not be zero");
  return p.integer(0) == -1 || integer_of(subject) % p.integer(0) == 0;
}

Value is_same(Interpreter&, const Value& subject, const Arguments& arguments) {
  const Parameters p("sameas", arguments, {"other"});
  const Value& other = p.value(0);
  if (subject.identity() != nullptr && subject.text() == nullptr)
    return subject.identity() == other.identity();
  return std::string_view(subject.kind_name()) == other.kind_name() && equal(subject, other);
}

Value is_in(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("in", arguments, {"seq"});
  return contains(p.value(0), subject, interpreter.budget());
}

enum class Order { equal, not_equal, less, less_equal, greater, greater_equal };

template <Order order>
Value compares(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("a comparison", arguments, {"other"});
  const Value& other = p.value(0);
  WorkBudget& budget = interpreter.budget();
  switch (order) {
    case Order::equal:
      return equal(subject, other, budget);
    case Order::not_equal:
      return !equal(subject, other, budget);
    case Order::less:
      return less(subject, other, budget);
    case Order::less_equal:
      return !less(other, subject, budget);
    case Order::greater:
      return less(other, subject, budget);
    case Order::greater_equal:
      return !less(subject, other, budget);
  }
  return false;
}

template <BuiltinFunction (*find)(std::string_view)>
Value is_name_of(Interpreter&, const Value& subject, const Arguments&) {
  return subject.text() != nullptr && find(subject.text()->bytes()) != nullptr;
}

constexpr std::array<Builtin, 39> kTests{{
    {"defined", test<is_defined>},
    {"undefined", test<is_undefined>},
    {"none", test<is_none>},
    {"true", test<is_true>},
    {"false", test<is_false>},
    {"boolean", test<is_boolean>},
    {"integer", test<is_integer>},
    {"float", test<is_float>},
    {"number", test<is_number>},
    {"string", test<is_string>},
    {"mapping", test<is_mapping>},
    {"callable", test<is_callable>},
    {"escaped", test<is_escaped>},
    {"sequence", test<is_sequence>},
    {"iterable", test<is_sequence>},
    {"odd", test<is_odd>},
    {"even", test<is_even>},
    {"upper", is_in_case<true>},
    {"lower", is_in_case<false>},
    {"divisibleby", divides},
    {"sameas", is_same},
    {"in", is_in},
    {"filter", is_name_of<find_filter>},
    {"test", is_name_of<find_test>},
    {"eq", compares<Order::equal>},
    {"equalto", compares<Order::equal>},
    {"==", compares<Order::equal>},
    {"ne", compares<Order::not_equal>},
    {"!=", compares<Order::not_equal>},
    {"lt", compares<Order::less>},
    {"lessthan", compares<Order::less>},
    {"<", compares<Order::less>},
    {"le", compares<Order::less_equal>},
    {"<=", compares<Order::less_equal>},
    {"gt", compares<Order::greater>},
    {"greaterthan", compares<Order::greater>},
    {">", compares<Order::greater>},
    {"ge", compares<Order::greater_equal>},
    {">=", compares<Order::greater_equal>},
}};

}  // namespace

BuiltinFunction find_test(std::string_view name) { return find_builtin(kTests, name); }

}  // namespace clora::jinja
