// Functions and namespaces as values of a template.
#pragma once

#include <functional>

#include "model/text/jinja/value.hpp"

namespace clora::jinja {

// A function of the engine, or one that the caller of render() adds.
class Function : public Object {
 public:
  using Call = std::function<Value(Interpreter&, const Arguments&)>;
  // `depth` is that of the values that the function refers to.
  Function(std::string name, Call call, std::size_t depth)
      : name_(std::move(name)), call_(std::move(call)), depth_(depth) {
    check_value_depth(depth);
  }

  std::string name() const override { return "function " + name_; }
  bool is_callable() const override { return true; }
  std::size_t depth() const override { return depth_; }
  Value call(Interpreter& interpreter, const Arguments& arguments) override {
    return call_(interpreter, arguments);
  }

 private:
  std::string name_;
  Call call_;
  std::size_t depth_;
};

inline Value function_value(std::string name, Function::Call call, std::size_t depth = 0) {
  return Value(std::static_pointer_cast<Object>(
      std::make_shared<Function>(std::move(name), std::move(call), depth)));
}

// namespace(a=1): the only values whose contents a template changes ({% set ns.a = 2 %}).
class Namespace : public Object {
 public:
  std::string name() const override { return "Namespace"; }
  std::optional<Value> attribute(std::string_view name) const override {
    const Value* found = contents_.find(name);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  void set(const std::string& name, Value value) { contents_.set(Value(name), std::move(value)); }
  void clear() { contents_.entries.clear(); }

 private:
  Dict contents_;
};

}  // namespace clora::jinja
