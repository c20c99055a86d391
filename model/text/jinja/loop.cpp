#include "model/text/jinja/loop.hpp"

#include "model/text/jinja/function.hpp"
#include "model/text/jinja/value_text.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {

namespace {

Value number(std::size_t value) { return static_cast<std::int64_t>(value); }

}  // namespace

std::optional<Value> Loop::attribute(std::string_view name) const {
  const std::size_t count = items_.size();
  if (name == "index") return number(index_ + 1);
  if (name == "index0") return number(index_);
  if (name == "revindex") return number(count - index_);
  if (name == "revindex0") return number(count - index_ - 1);
  if (name == "first") return Value(index_ == 0);
  if (name == "last") return Value(index_ + 1 == count);
  if (name == "length") return number(count);
  if (name == "depth") return number(depth_);
  if (name == "depth0") return number(depth_ - 1);
  if (name == "previtem")
    return index_ > 0 ? items_[index_ - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return index_ + 1 < count ? items_[index_ + 1] : Value::undefined("there is no next item");
  return method(name);
}

std::optional<Value> Loop::method(std::string_view name) const {
  if (name == "cycle") {
    const std::size_t index = index_;
    return function_value("cycle", [index](Interpreter&, const Arguments& arguments) {
      require(!arguments.positional.empty(), "loop.cycle needs at least one argument");
      return arguments.positional[index % arguments.positional.size()];
    });
  }
  if (name == "changed") {
    return function_value("changed", [this](Interpreter& interpreter, const Arguments& arguments) {
      return Value(changes(repr_of(List{.items = arguments.positional}, interpreter.budget())));
    });
  }
  return std::nullopt;
}

bool Loop::changes(Text values) const {
  const bool same = last_ == values.bytes();
  last_ = values.bytes();
  return !same;
}

Value Loop::call(Interpreter& interpreter, const Arguments& arguments) {
  require(statement_.recursive, "loop is called, but the loop is not 'recursive'");
  require(arguments.positional.size() == 1 && arguments.named.empty(),
          "loop takes the items as its only argument");
  return interpreter.render_loop(statement_, arguments.positional[0], outer_, depth_ + 1);
}

}  // namespace clora::jinja
