// Expressions of interpreter.hpp.
#include <algorithm>

#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/function.hpp"
#include "model/text/jinja/interpreter.hpp"
#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/text_parts.hpp"
#include "model/text/jinja/value_text.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {

using Kind = Expression::Kind;

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [key, value] : scope->names) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(const std::string& name, Value value) {
  for (auto& [key, content] : names) {
    if (key == name) {
      content = std::move(value);
      return;
    }
  }
  names.emplace_back(name, std::move(value));
}

Value Interpreter::evaluate(const Expression& e) {
  const WorkBudget::Level level(budget_);
  budget_.step();
  line_ = e.line;
  switch (e.kind) {
    case Kind::constant:
      return e.constant;
    case Kind::name:
      return evaluate_name(e);
    case Kind::list:
    case Kind::tuple:
      return evaluate_series(e);
    case Kind::dict:
      return evaluate_dict(e);
    case Kind::negative:
      return negative(evaluate(*e.operands[0]));
    case Kind::positive:
      return positive(evaluate(*e.operands[0]));
    case Kind::negation:
      return !evaluate(*e.operands[0]).truth();
    case Kind::arithmetic: {
      const Value a = evaluate(*e.operands[0]);
      return calculate(e.op, a, evaluate(*e.operands[1]), budget_);
    }
    case Kind::concatenation:
      return evaluate_concatenation(e);
    case Kind::comparison:
      return evaluate_comparison(e);
    case Kind::conjunction:
    case Kind::disjunction:
      return evaluate_logic(e);
    case Kind::conditional:
      return evaluate_conditional(e);
    case Kind::attribute:
      return attribute_of(evaluate(*e.operands[0]), e.name);
    case Kind::item: {
      const Value value = evaluate(*e.operands[0]);
      return element_of(value, evaluate(*e.operands[1]));
    }
    case Kind::slice:
      return evaluate_slice(e);
    case Kind::call:
      return evaluate_call(e);
    case Kind::filter: {
      const Value subject = evaluate(*e.operands[0]);
      return apply_filter(e.name, subject, evaluate_arguments(e.arguments));
    }
    case Kind::test: {
      const Value subject = evaluate(*e.operands[0]);
      return apply_test(e.name, subject, evaluate_arguments(e.arguments));
    }
  }
  return {};
}

Value Interpreter::evaluate_name(const Expression& e) {
  if (const Value* found = scope_->find(e.name)) return *found;
  if (const BuiltinFunction global = find_global(e.name)) {
    return function_value(e.name, [global](Interpreter& interpreter, const Arguments& arguments) {
      return global(interpreter, Value(), arguments);
    });
  }
  return Value::undefined(fmt::format("'{}' is undefined", e.name));
}

Value Interpreter::evaluate_series(const Expression& e) {
  List list{.items = {}, .is_tuple = e.kind == Kind::tuple};
  for (const ExpressionPtr& item : e.operands) list.items.push_back(evaluate(*item));
  return list;
}

Value Interpreter::evaluate_dict(const Expression& e) {
  Dict dict;
  for (std::size_t i = 0; i + 1 < e.operands.size(); i += 2) {
    const Value key = evaluate(*e.operands[i]);
    const bool mutable_key =
        key.dict() != nullptr || (key.list() != nullptr && !key.list()->is_tuple);
    require(!mutable_key, "a key of a dictionary cannot be a {}", key.kind_name());
    budget_.step(dict.entries.size() / 8);
    dict.set(key, evaluate(*e.operands[i + 1]));
  }
  return dict;
}

Value Interpreter::evaluate_concatenation(const Expression& e) {
  std::vector<Text> parts;
  for (const ExpressionPtr& operand : e.operands)
    parts.push_back(text_of(evaluate(*operand), budget_));
  return joined(parts, Text(), budget_);
}

bool Interpreter::compare(ComparisonOperator comparison, const Value& a, const Value& b) {
  switch (comparison) {
    case ComparisonOperator::equal:
      return equal(a, b, budget_);
    case ComparisonOperator::not_equal:
      return !equal(a, b, budget_);
    case ComparisonOperator::less:
      return less(a, b, budget_);
    case ComparisonOperator::less_equal:
      return less(a, b, budget_) || equal(a, b, budget_);
    case ComparisonOperator::greater:
      return less(b, a, budget_);
    case ComparisonOperator::greater_equal:
      return less(b, a, budget_) || equal(a, b, budget_);
    case ComparisonOperator::in:
      return contains(b, a, budget_);
    case ComparisonOperator::not_in:
      return !contains(b, a, budget_);
  }
  return false;
}

Value Interpreter::evaluate_comparison(const Expression& e) {
  Value left = evaluate(*e.operands[0]);
  for (std::size_t i = 0; i < e.comparisons.size(); ++i) {
    Value right = evaluate(*e.operands[i + 1]);
    if (!compare(e.comparisons[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

// As in Python, the value of `a or b` is one of the two.
Value Interpreter::evaluate_logic(const Expression& e) {
  Value value;
  for (const ExpressionPtr& operand : e.operands) {
    value = evaluate(*operand);
    if (value.truth() == (e.kind == Kind::disjunction)) return value;
  }
  return value;
}

Value Interpreter::evaluate_conditional(const Expression& e) {
  if (evaluate(*e.operands[1]).truth()) return evaluate(*e.operands[0]);
  if (e.operands[2] != nullptr) return evaluate(*e.operands[2]);
  return Value::undefined("the condition of an 'if' without 'else' is false");
}

Value Interpreter::evaluate_slice(const Expression& e) {
  const auto bound = [&](std::size_t i) {
    return e.operands[i] == nullptr ? Value(None{}) : evaluate(*e.operands[i]);
  };
  const Value value = evaluate(*e.operands[0]);
  const Value begin = bound(1), end = bound(2);
  return slice_of(value, begin, end, bound(3), budget_);
}

// A method is called without a value for it.
Value Interpreter::evaluate_call(const Expression& e) {
  const Expression& callee = *e.operands[0];
  if (callee.kind == Kind::attribute) {
    const Value subject = evaluate(*callee.operands[0]);
    if (const BuiltinFunction method = find_method(subject, callee.name)) {
      return method(*this, subject, evaluate_arguments(e.arguments));
    }
    const Value function = attribute_of(subject, callee.name);
    return call(function, evaluate_arguments(e.arguments));
  }
  const Value function = evaluate(callee);
  return call(function, evaluate_arguments(e.arguments));
}

void Interpreter::add_spread(const ArgumentSyntax& argument, const Value& value, Arguments& out) {
  if (argument.kind == ArgumentSyntax::Kind::list) {
    for (Value& item : items_of(value, budget_, "*")) out.positional.push_back(std::move(item));
    return;
  }
  require(value.dict() != nullptr, "** needs a dictionary, got {}", value.kind_name());
  for (const auto& [key, item] : value.dict()->entries) {
    require(key.text() != nullptr, "** needs keys that are texts, got {}", key.kind_name());
    out.named.emplace_back(key.text()->bytes(), item);
  }
}

Arguments Interpreter::evaluate_arguments(const std::vector<ArgumentSyntax>& arguments) {
  Arguments out;
  for (const ArgumentSyntax& argument : arguments) {
    Value value = evaluate(*argument.value);
    if (argument.kind == ArgumentSyntax::Kind::positional) {
      out.positional.push_back(std::move(value));
    } else if (argument.kind == ArgumentSyntax::Kind::named) {
      out.named.emplace_back(argument.name, std::move(value));
    } else {
      add_spread(argument, value, out);
    }
  }
  return out;
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  require_defined(callee);
  require(callee.object() != nullptr, "a value of type '{}' is not callable", callee.kind_name());
  const WorkBudget::Level level(budget_);
  const std::shared_ptr<Object> object = *callee.shared_object();
  const std::size_t line = line_;
  Value result = object->call(*this, arguments);
  line_ = line;
  return result;
}

Value Interpreter::apply_filter(std::string_view name, const Value& subject,
                                const Arguments& arguments) {
  const BuiltinFunction filter = find_filter(name);
  require(filter != nullptr, "there is no filter '{}'", name);
  budget_.step();
  return filter(*this, subject, arguments);
}

bool Interpreter::apply_test(std::string_view name, const Value& subject,
                             const Arguments& arguments) {
  const BuiltinFunction test = find_test(name);
  require(test != nullptr, "there is no test '{}'", name);
  budget_.step();
  return test(*this, subject, arguments).truth();
}

Value Interpreter::attribute_of(const Value& value, const std::string& name) {
  require_defined(value);
  if (const Object* object = value.object()) {
    if (auto found = object->attribute(name)) return *std::move(found);
  }
  if (const BuiltinFunction method = find_method(value, name)) {
    return function_value(
        name,
        [method, value](Interpreter& interpreter, const Arguments& arguments) {
          return method(interpreter, value, arguments);
        },
        1 + value.depth());
  }
  if (value.dict() != nullptr) {
    budget_.step(value.dict()->entries.size() / 8);
    if (const Value* found = value.dict()->find(name)) return *found;
  }
  return Value::undefined(
      fmt::format("a value of type '{}' has no attribute '{}'", value.kind_name(), name));
}

Value Interpreter::element_of(const Value& value, const Value& key) {
  Value found = item_of(value, key, budget_);
  if (!found.is_undefined() || key.text() == nullptr) return found;
  Value attribute = attribute_of(value, key.text()->bytes());
  return attribute.is_undefined() ? found : attribute;
}

}  // namespace clora::jinja
