// Statements of interpreter.hpp.
#include "model/text/jinja/function.hpp"
#include "model/text/jinja/interpreter.hpp"
#include "model/text/jinja/loop.hpp"
#include "model/text/jinja/macro.hpp"
#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/value_text.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {
namespace {

using Kind = Statement::Kind;

// Sets a variable for as long as this object lives.
template <class T>
class Exchanged {
 public:
  Exchanged(T& variable, T value)
      : variable_(variable), before_(std::exchange(variable, std::move(value))) {}
  ~Exchanged() { variable_ = std::move(before_); }
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;

 private:
  T& variable_;
  T before_;
};

}  // namespace

Interpreter::Interpreter(const Dict& variables, const Limits& limits)
    : budget_(limits), scope_(std::make_shared<Scope>(nullptr)) {
  for (const auto& [key, value] : variables.entries) scope_->set(key.text()->bytes(), value);
  scope_ = new_scope();
}

// All are alive until the last is cleared, so no destructor recurses through a chain of them.
Interpreter::~Interpreter() {
  for (const auto& space : namespaces_) space->clear();
  for (const auto& scope : scopes_) scope->names.clear();
}

void Interpreter::keep(std::shared_ptr<Namespace> space) {
  budget_.step(20);
  namespaces_.push_back(std::move(space));
}

void Interpreter::keep(const std::shared_ptr<Scope>& scope) {
  if (!scopes_.empty() && scopes_.back() == scope) return;
  budget_.step(20);
  scopes_.push_back(scope);
}

Text Interpreter::render(const Body& body) {
  Text out;
  const Exchanged<Text*> output(out_, &out);
  execute(body);
  return out;
}

void Interpreter::write(const Text& text) {
  budget_.text(text.size());
  out_->append(text);
  require(out_->size() <= budget_.limits().text_bytes, "the output has more than {} bytes",
          budget_.limits().text_bytes);
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const auto& statement : body) {
    const Flow flow = execute(*statement);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute(const Statement& s) {
  const WorkBudget::Level level(budget_);
  budget_.step();
  line_ = s.line;
  switch (s.kind) {
    case Kind::data:
      write(Text(s.text));
      break;
    case Kind::print:
      write(text_of(evaluate(*s.expression), budget_));
      break;
    case Kind::condition:
      return execute_condition(s);
    case Kind::loop:
      return run_loop(s, evaluate(*s.expression), scope_, 1);
    case Kind::assignment:
      assign(s.target, evaluate(*s.expression));
      break;
    case Kind::capture:
      execute_capture(s);
      break;
    case Kind::macro:
      execute_macro(s);
      break;
    case Kind::call:
      execute_call(s);
      break;
    case Kind::filter:
      execute_filter(s);
      break;
    case Kind::scope:
      return execute_scope(s);
    case Kind::generation:
      execute_generation(s);
      break;
    case Kind::break_loop:
      return Flow::breaks;
    case Kind::continue_loop:
      return Flow::continues;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute_condition(const Statement& s) {
  for (const Branch& branch : s.branches) {
    if (branch.condition == nullptr || evaluate(*branch.condition).truth())
      return execute(branch.body);
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::run_loop(const Statement& s, const Value& items,
                                        std::shared_ptr<Scope> outer, std::size_t depth) {
  std::vector<Value> chosen = items_of(items, budget_, "for");
  const Exchanged<std::shared_ptr<Scope>> outside(scope_, outer);
  if (s.condition != nullptr) {
    std::erase_if(chosen, [&](const Value& item) {
      const Exchanged<std::shared_ptr<Scope>> inside(scope_, std::make_shared<Scope>(outer));
      assign(s.target, item);
      return !evaluate(*s.condition).truth();
    });
  }
  if (chosen.empty()) return execute(s.otherwise);
  keep(outer);
  const auto loop = std::make_shared<Loop>(s, std::move(chosen), outer, depth);
  for (std::size_t i = 0; i < loop->items().size(); ++i) {
    const Exchanged<std::shared_ptr<Scope>> inside(scope_, std::make_shared<Scope>(outer));
    loop->set_index(i);
    assign(s.target, loop->items()[i]);
    scope_->set("loop", Value(std::static_pointer_cast<Object>(loop)));
    if (execute(s.body) == Flow::breaks) break;
  }
  return Flow::normal;
}

Text Interpreter::render_loop(const Statement& statement, const Value& items,
                              std::shared_ptr<Scope> outer, std::size_t depth) {
  Text out;
  const Exchanged<Text*> output(out_, &out);
  run_loop(statement, items, std::move(outer), depth);
  return out;
}

void Interpreter::assign(const AssignmentTarget& target, const Value& value) {
  if (!target.attribute.empty()) return assign_attribute(target, value);
  if (target.parts.empty()) return scope_->set(target.name, value);
  const std::vector<Value> items = items_of(value, budget_, "an assignment to several names");
  require(items.size() == target.parts.size(), "{} values cannot be assigned to {} names",
          items.size(), target.parts.size());
  for (std::size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
}

void Interpreter::assign_attribute(const AssignmentTarget& target, const Value& value) {
  const Value* found = scope_->find(target.name);
  auto* space = found == nullptr ? nullptr : dynamic_cast<Namespace*>(found->object());
  require(space != nullptr, "only attributes of a namespace can be assigned; '{}' is none",
          target.name);
  space->set(target.attribute, value);
}

Text Interpreter::render_apart(const Body& body, std::shared_ptr<Scope> scope) {
  Text out;
  const Exchanged<Text*> output(out_, &out);
  const Exchanged<std::shared_ptr<Scope>> inside(scope_, std::move(scope));
  execute(body);
  return out;
}

// The chain of filters finds the body's output under a name that no template can write.
Value Interpreter::filtered(const Statement& s) {
  const Exchanged<std::shared_ptr<Scope>> inside(scope_, new_scope());
  scope_->set(kFiltered, render_apart(s.body, scope_));
  return evaluate(*s.expression);
}

void Interpreter::execute_capture(const Statement& s) {
  assign(s.target, s.expression != nullptr ? filtered(s) : render_apart(s.body, new_scope()));
}

void Interpreter::execute_filter(const Statement& s) { write(text_of(filtered(s), budget_)); }

void Interpreter::execute_macro(const Statement& s) {
  keep(scope_);
  scope_->set(s.text, Value(std::static_pointer_cast<Object>(std::make_shared<Macro>(s, scope_))));
}

Text Interpreter::render_macro(const Statement& s, std::shared_ptr<Scope> scope) {
  {
    const Exchanged<std::shared_ptr<Scope>> inside(scope_, scope);
    const std::size_t given = scope->names.size();
    for (const Parameter& parameter : s.parameters) {
      const auto has = [&](std::size_t i) { return scope->names[i].first == parameter.name; };
      bool found = false;
      for (std::size_t i = 0; i < given && !found; ++i) found = has(i);
      if (!found) scope->set(parameter.name, evaluate(*parameter.otherwise));
    }
  }
  return render_apart(s.body, std::move(scope));
}

void Interpreter::execute_call(const Statement& s) {
  keep(scope_);
  const Expression& call = *s.expression;
  const Value callee = evaluate(*call.operands[0]);
  Arguments arguments = evaluate_arguments(call.arguments);
  arguments.named.emplace_back(
      "caller", Value(std::static_pointer_cast<Object>(std::make_shared<Macro>(s, scope_))));
  write(text_of(this->call(callee, arguments), budget_));
}

Interpreter::Flow Interpreter::execute_scope(const Statement& s) {
  const auto scope = new_scope();
  for (const auto& [target, expression] : s.assignments) {
    const Value value = evaluate(*expression);  // in the outer scope
    const Exchanged<std::shared_ptr<Scope>> inside(scope_, scope);
    assign(target, value);
  }
  const Exchanged<std::shared_ptr<Scope>> inside(scope_, scope);
  return execute(s.body);
}

void Interpreter::execute_generation(const Statement& s) {
  Text out = render_apart(s.body, new_scope());
  out.mark_generated();
  write(out);
}

}  // namespace clora::jinja
