// Parameters: the arguments of a call to a function of the engine, matched to its parameters.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/jinja/limits.hpp"
#include "model/text/jinja/value.hpp"

namespace clora::jinja {

class Parameters {
 public:
  // Refers to `arguments`. Errors: invalid_argument for an argument too many, or an unknown name.
  Parameters(std::string_view who, const Arguments& arguments,
             std::initializer_list<std::string_view> names);

  // nullptr if the argument is not given.
  const Value* find(std::size_t i) const { return values_[i]; }
  // Errors of these: invalid_argument for a value of another kind; and where there is no default,
  // for an argument that is not given.
  const Value& value(std::size_t i) const;
  Text text(std::size_t i) const;
  Text text(std::size_t i, const char* otherwise) const;
  std::int64_t integer(std::size_t i) const;
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  bool flag(std::size_t i, bool otherwise) const;

 private:
  std::string_view who_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

}  // namespace clora::jinja
