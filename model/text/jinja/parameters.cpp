#include "model/text/jinja/parameters.hpp"

#include <algorithm>

#include "runtime/fail.hpp"

namespace clora::jinja {

Parameters::Parameters(std::string_view who, const Arguments& arguments,
                       std::initializer_list<std::string_view> names)
    : who_(who), names_(names), values_(names.size(), nullptr) {
  require(arguments.positional.size() <= names_.size(), "{} takes at most {} arguments, got {}",
          who, names_.size(), arguments.positional.size());
  for (std::size_t i = 0; i < arguments.positional.size(); ++i)
    values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::ranges::find(names_, name);
    require(found != names_.end(), "{} has no argument '{}'", who, name);
    const auto i = static_cast<std::size_t>(found - names_.begin());
    require(values_[i] == nullptr, "{}: the argument '{}' is given twice", who, name);
    values_[i] = &value;
  }
}

const Value& Parameters::value(std::size_t i) const {
  require(values_[i] != nullptr, "{} needs the argument '{}'", who_, names_[i]);
  return *values_[i];
}

Text Parameters::text(std::size_t i) const {
  const Value& given = value(i);
  require(given.text() != nullptr, "{}: '{}' must be a str, got {}", who_, names_[i],
          given.kind_name());
  return *given.text();
}

Text Parameters::text(std::size_t i, const char* otherwise) const {
  return find(i) == nullptr ? Text(otherwise) : text(i);
}

std::int64_t Parameters::integer(std::size_t i) const {
  const Value& given = value(i);
  require(given.as_integer().has_value(), "{}: '{}' must be an int, got {}", who_, names_[i],
          given.kind_name());
  return *given.as_integer();
}

std::int64_t Parameters::integer(std::size_t i, std::int64_t otherwise) const {
  return find(i) == nullptr ? otherwise : integer(i);
}

bool Parameters::flag(std::size_t i, bool otherwise) const {
  return find(i) == nullptr ? otherwise : find(i)->truth();
}

}  // namespace clora::jinja
