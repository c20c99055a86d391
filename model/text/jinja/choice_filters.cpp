// Filters that choose or map items by an attribute, a test or a filter (builtins.hpp).
#include <array>

#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/interpreter.hpp"
#include "model/text/jinja/operators.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {
namespace {

// The arguments after the first `count`.
Arguments rest_of(const Arguments& arguments, std::size_t count) {
  Arguments rest;
  const auto& all = arguments.positional;
  rest.positional.assign(all.begin() + static_cast<std::ptrdiff_t>(std::min(count, all.size())),
                         all.end());
  rest.named = arguments.named;
  return rest;
}

// As in jinja2, these filters give nothing for None.
std::vector<Value> truthy_items(Interpreter& interpreter, const Value& subject,
                                std::string_view who) {
  return subject.truth() ? items_of(subject, interpreter.budget(), who) : std::vector<Value>();
}

const std::string& name_of(const Value& value, std::string_view what) {
  require(value.text() != nullptr, "the name of a {} must be a str, got {}", what,
          value.kind_name());
  return value.text()->bytes();
}

// map(attribute="a", default=0)
Value map_attribute(Interpreter& interpreter, const std::vector<Value>& items,
                    const Arguments& arguments) {
  const Value* path = nullptr;
  const Value* otherwise = nullptr;
  for (const auto& [name, value] : arguments.named) {
    require(name == "attribute" || name == "default", "map has no argument '{}'", name);
    (name == "attribute" ? path : otherwise) = &value;
  }
  require(path != nullptr, "map needs the name of a filter, or 'attribute'");
  List list;
  for (const Value& item : items) {
    Value part = part_of(interpreter, item, *path);
    const bool replaced = part.is_undefined() && otherwise != nullptr && !otherwise->is_none();
    list.items.push_back(replaced ? *otherwise : std::move(part));
  }
  return list;
}

Value map(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const std::vector<Value> items = truthy_items(interpreter, subject, "map");
  if (arguments.positional.empty()) return map_attribute(interpreter, items, arguments);
  const std::string& filter = name_of(arguments.positional[0], "filter");
  const Arguments rest = rest_of(arguments, 1);
  List list;
  for (const Value& item : items)
    list.items.push_back(interpreter.apply_filter(filter, item, rest));
  return list;
}

// select("odd"), selectattr("role", "equalto", "user"): items for which a test holds, or by their
// truth without one.
template <bool by_attribute, bool wanted>
Value choose(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  constexpr std::size_t kTest = by_attribute ? 1 : 0;
  const auto& positional = arguments.positional;
  require(!by_attribute || !positional.empty(), "selectattr and rejectattr need an attribute");
  const bool has_test = positional.size() > kTest;
  const std::string test = has_test ? name_of(positional[kTest], "test") : std::string();
  const Arguments rest = rest_of(arguments, kTest + 1);
  List list;
  for (const Value& item : truthy_items(interpreter, subject, "select")) {
    const Value part = by_attribute ? part_of(interpreter, item, positional[0]) : item;
    const bool holds = has_test ? interpreter.apply_test(test, part, rest) : part.truth();
    if (holds == wanted) list.items.push_back(item);
  }
  return list;
}

constexpr std::array<Builtin, 5> kFilters{{
    {"map", map},
    {"select", choose<false, true>},
    {"reject", choose<false, false>},
    {"selectattr", choose<true, true>},
    {"rejectattr", choose<true, false>},
}};

}  // namespace

std::span<const Builtin> choice_filters() { return kFilters; }

}  // namespace clora::jinja
