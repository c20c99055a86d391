// Macro: a macro or the body of a call block as a callable value, with the scope where it stands.
#pragma once

#include "model/text/jinja/interpreter.hpp"

namespace clora::jinja {

class Macro : public Object {
 public:
  // Refers to the statement, which lives as long as the template.
  Macro(const Statement& statement, std::shared_ptr<Scope> scope)
      : statement_(statement), scope_(std::move(scope)) {}

  std::string name() const override { return "macro '" + statement_.text + "'"; }
  bool is_callable() const override { return true; }
  std::optional<Value> attribute(std::string_view name) const override;
  Value call(Interpreter& interpreter, const Arguments& arguments) override;

 private:
  void bind(const Arguments& arguments, Scope& scope) const;
  void bind_further(const Arguments& arguments, Scope& scope) const;

  const Statement& statement_;
  std::shared_ptr<Scope> scope_;
};

}  // namespace clora::jinja
