// Loop: the value `loop` in the body of a for loop.
#pragma once

#include "model/text/jinja/interpreter.hpp"

namespace clora::jinja {

class Loop : public Object {
 public:
  Loop(const Statement& statement, std::vector<Value> items, std::shared_ptr<Scope> outer,
       std::size_t depth)
      : statement_(statement), items_(std::move(items)), outer_(std::move(outer)), depth_(depth) {
    value_depth_ = 1 + depth_of(items_);
    check_value_depth(value_depth_);
  }

  std::string name() const override { return "LoopContext"; }
  bool is_callable() const override { return statement_.recursive; }
  std::size_t depth() const override { return value_depth_; }
  std::optional<Value> attribute(std::string_view name) const override;
  // loop(items): the loop's output for other items, one level deeper.
  Value call(Interpreter& interpreter, const Arguments& arguments) override;

  const std::vector<Value>& items() const noexcept { return items_; }
  void set_index(std::size_t index) { index_ = index; }

 private:
  std::optional<Value> method(std::string_view name) const;
  bool changes(Text values) const;

  const Statement& statement_;
  std::vector<Value> items_;
  std::shared_ptr<Scope> outer_;
  std::size_t depth_, index_ = 0;
  std::size_t value_depth_;
  mutable std::optional<std::string> last_;  // the repr of the last arguments of loop.changed()
};

}  // namespace clora::jinja
