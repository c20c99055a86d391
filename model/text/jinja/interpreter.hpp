// Interpreter: renders a syntax tree. One per rendering; used by one thread.
//
// Names are looked up in nested scopes: a loop's body, a macro, a call block, a capture and `with`
// have their own; `if` has none. Errors: invalid_argument, without the line, which line() returns.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text/jinja/limits.hpp"
#include "model/text/jinja/syntax.hpp"
#include "model/text/jinja/value.hpp"

namespace clora::jinja {

class Namespace;

// What raise_exception() throws: the template's own message.
struct Refusal {
  std::string message;
};

struct Scope {
  explicit Scope(std::shared_ptr<Scope> outer) : parent(std::move(outer)) {}

  const Value* find(std::string_view name) const;  // here or further out; nullptr: nowhere
  void set(const std::string& name, Value value);  // here

  std::vector<std::pair<std::string, Value>> names;
  std::shared_ptr<Scope> parent;
};

class Interpreter {
 public:
  Interpreter(const Dict& variables, const Limits& limits);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Text render(const Body& body);

  WorkBudget& budget() noexcept { return budget_; }
  std::size_t line() const noexcept { return line_; }

  Value evaluate(const Expression& expression);
  Value call(const Value& callee, const Arguments& arguments);
  // Errors: invalid_argument if there is no filter or test of this name.
  Value apply_filter(std::string_view name, const Value& subject, const Arguments& arguments);
  bool apply_test(std::string_view name, const Value& subject, const Arguments& arguments);
  // value.name and value["name"]
  Value attribute_of(const Value& value, const std::string& name);
  Value element_of(const Value& value, const Value& key);

  // The output of a macro's body. Parameters that the scope does not have get their defaults.
  Text render_macro(const Statement& statement, std::shared_ptr<Scope> scope);
  // Renders a loop over items; `depth` counts the calls of a recursive one.
  Text render_loop(const Statement& statement, const Value& items, std::shared_ptr<Scope> outer,
                   std::size_t depth);
  // The interpreter keeps a namespace, and a scope that a value refers to, until it ends, when it
  // clears them: their contents may refer to each other, in cycles or in long chains.
  void keep(std::shared_ptr<Namespace> space);

 private:
  enum class Flow { normal, breaks, continues };

  Value evaluate_name(const Expression& e);
  Value evaluate_series(const Expression& e);
  Value evaluate_dict(const Expression& e);
  Value evaluate_concatenation(const Expression& e);
  Value evaluate_comparison(const Expression& e);
  bool compare(ComparisonOperator comparison, const Value& a, const Value& b);
  Value evaluate_logic(const Expression& e);
  Value evaluate_conditional(const Expression& e);
  Value evaluate_slice(const Expression& e);
  Value evaluate_call(const Expression& e);
  Arguments evaluate_arguments(const std::vector<ArgumentSyntax>& arguments);
  void add_spread(const ArgumentSyntax& argument, const Value& value, Arguments& out);

  Flow execute(const Body& body);
  Flow execute(const Statement& s);
  Flow execute_condition(const Statement& s);
  Flow execute_scope(const Statement& s);
  void execute_generation(const Statement& s);
  void execute_capture(const Statement& s);
  void execute_filter(const Statement& s);
  void execute_macro(const Statement& s);
  void execute_call(const Statement& s);
  Flow run_loop(const Statement& s, const Value& items, std::shared_ptr<Scope> outer,
                std::size_t depth);
  // The body's output; its names are in a scope of their own.
  Text render_apart(const Body& body, std::shared_ptr<Scope> scope);
  Value filtered(const Statement& s);
  void assign(const AssignmentTarget& target, const Value& value);
  void assign_attribute(const AssignmentTarget& target, const Value& value);
  void write(const Text& text);
  void keep(const std::shared_ptr<Scope>& scope);
  std::shared_ptr<Scope> new_scope() { return std::make_shared<Scope>(scope_); }

  WorkBudget budget_;
  std::shared_ptr<Scope> scope_;
  Text* out_ = nullptr;
  std::size_t line_ = 1;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<Scope>> scopes_;
};

}  // namespace clora::jinja
