#include "model/text/jinja/macro.hpp"

#include <algorithm>

#include "runtime/fail.hpp"

namespace clora::jinja {

std::optional<Value> Macro::attribute(std::string_view name) const {
  if (name == "name") return Value(statement_.text);
  return std::nullopt;
}

Value Macro::call(Interpreter& interpreter, const Arguments& arguments) {
  auto scope = std::make_shared<Scope>(scope_);
  bind(arguments, *scope);
  bind_further(arguments, *scope);
  return interpreter.render_macro(statement_, std::move(scope));
}

void Macro::bind(const Arguments& arguments, Scope& scope) const {
  for (std::size_t i = 0; i < statement_.parameters.size(); ++i) {
    const std::string& parameter = statement_.parameters[i].name;
    const auto named =
        std::ranges::find(arguments.named, parameter, &std::pair<std::string, Value>::first);
    const bool has_named = named != arguments.named.end();
    if (i < arguments.positional.size()) {
      require(!has_named, "{}: the argument '{}' is given twice", name(), parameter);
      scope.set(parameter, arguments.positional[i]);
    } else if (has_named) {
      scope.set(parameter, named->second);
    } else if (statement_.parameters[i].otherwise == nullptr) {
      scope.set(parameter,
                Value::undefined(fmt::format("the parameter '{}' was not given", parameter)));
    }
  }
}

// Arguments beyond the parameters: caller, varargs and kwargs.
void Macro::bind_further(const Arguments& arguments, Scope& scope) const {
  const auto& parameters = statement_.parameters;
  List varargs{.items = {}, .is_tuple = true};
  for (std::size_t i = parameters.size(); i < arguments.positional.size(); ++i)
    varargs.items.push_back(arguments.positional[i]);
  Dict kwargs;
  for (const auto& [key, value] : arguments.named) {
    if (std::ranges::find(parameters, key, &Parameter::name) != parameters.end()) continue;
    if (key == "caller") {
      scope.set(key, value);
    } else {
      kwargs.set(Value(key), value);
    }
  }
  require(varargs.items.empty() || statement_.uses_varargs, "{} takes at most {} arguments, got {}",
          name(), parameters.size(), arguments.positional.size());
  if (!kwargs.entries.empty() && !statement_.uses_kwargs)
    fail(ErrorCode::invalid_argument, "{} has no parameter '{}'", name(),
         kwargs.entries.front().first.text()->bytes());
  if (statement_.uses_varargs) scope.set("varargs", std::move(varargs));
  if (statement_.uses_kwargs) scope.set("kwargs", std::move(kwargs));
}

}  // namespace clora::jinja
