// The filters, tests, methods and global functions of the engine: constant tables from a name to a
// function. All have one signature; `subject` is what stands before the bar, `is` or the dot.
#pragma once

#include <span>
#include <string_view>

#include "model/text/jinja/value.hpp"

namespace clora::jinja {

using BuiltinFunction = Value (*)(Interpreter& interpreter, const Value& subject,
                                  const Arguments& arguments);

struct Builtin {
  std::string_view name;
  BuiltinFunction function;
};

// nullptr: there is none of this name.
BuiltinFunction find_builtin(std::span<const Builtin> table, std::string_view name);
BuiltinFunction find_filter(std::string_view name);
BuiltinFunction find_test(std::string_view name);
// A method of a str, a list or a dict.
BuiltinFunction find_method(const Value& subject, std::string_view name);
// namespace, range, dict, joiner, cycler, raise_exception; subject is undefined.
BuiltinFunction find_global(std::string_view name);

std::span<const Builtin> text_filters();
std::span<const Builtin> list_filters();
std::span<const Builtin> value_filters();
std::span<const Builtin> choice_filters();
std::span<const Builtin> text_methods();
std::span<const Builtin> splitting_methods();

// The part of an item that "a.b.0" or 0 names, as in sort(attribute="a.b").
Value part_of(Interpreter& interpreter, const Value& item, const Value& path);

}  // namespace clora::jinja
