#include "model/text/jinja/builtins.hpp"

#include <algorithm>
#include <array>

#include "model/text/jinja/function.hpp"
#include "model/text/jinja/interpreter.hpp"
#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/parameters.hpp"
#include "model/text/jinja/value_text.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // as in jinja2's sandbox

Value make_namespace(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  auto space = std::make_shared<Namespace>();
  for (const Value& value : arguments.positional) {
    require(value.dict() != nullptr, "namespace needs a dictionary, got {}", value.kind_name());
    for (const auto& [key, content] : value.dict()->entries)
      space->set(text_of(key, interpreter.budget()).bytes(), content);
  }
  for (const auto& [key, value] : arguments.named) space->set(key, value);
  interpreter.keep(space);
  return Value(std::static_pointer_cast<Object>(std::move(space)));
}

Value make_range(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  const Parameters p("range", arguments, {"start", "stop", "step"});
  const bool from_zero = p.find(1) == nullptr;
  const std::int64_t begin = from_zero ? 0 : p.integer(0), end = p.integer(from_zero ? 0 : 1);
  const std::int64_t step = p.integer(2, 1);
  require(step != 0, "range: the step must not be zero");
  const double length =
      (static_cast<double>(end) - static_cast<double>(begin)) / static_cast<double>(step);
  require(length <= kMaxRange, "range has more than {} numbers", kMaxRange);
  List list;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    list.items.emplace_back(i);
    if (static_cast<double>(list.items.size()) >= length) break;
  }
  interpreter.budget().step(list.items.size());
  return list;
}

Value make_dict(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  Dict dict;
  for (const Value& value : arguments.positional) {
    if (value.dict() != nullptr) {
      dict = *value.dict();
      continue;
    }
    for (const Value& pair : items_of(value, interpreter.budget(), "dict")) {
      require(pair.list() != nullptr && pair.list()->items.size() == 2,
              "dict needs a dictionary or a list of pairs");
      dict.set(pair.list()->items[0], pair.list()->items[1]);
    }
  }
  for (const auto& [key, value] : arguments.named) dict.set(Value(key), value);
  return dict;
}

Value make_joiner(Interpreter&, const Value&, const Arguments& arguments) {
  const Parameters p("joiner", arguments, {"sep"});
  const auto used = std::make_shared<bool>(false);
  return function_value("joiner",
                        [used, separator = p.text(0, ", ")](Interpreter&, const Arguments&) {
                          return std::exchange(*used, true) ? Value(separator) : Value("");
                        });
}

Value raise_exception(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  const Parameters p("raise_exception", arguments, {"message"});
  throw Refusal{text_of(p.value(0), interpreter.budget()).bytes()};
}

constexpr std::array<Builtin, 5> kGlobals{{
    {"namespace", make_namespace},
    {"range", make_range},
    {"dict", make_dict},
    {"joiner", make_joiner},
    {"raise_exception", raise_exception},
}};

// Methods of dictionaries and lists that change nothing.
Value get_entry(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("get", arguments, {"key", "default"});
  interpreter.budget().step(1 + subject.dict()->entries.size() / 8);
  if (const Value* found = subject.dict()->find_key(p.value(0))) return *found;
  return p.find(1) == nullptr ? Value(None{}) : *p.find(1);
}

template <class Part>
Value parts_of(Interpreter& interpreter, const Value& subject, const Part& part) {
  List list;
  interpreter.budget().step(subject.dict()->entries.size());
  for (const auto& entry : subject.dict()->entries) list.items.push_back(part(entry));
  return list;
}

using Entry = std::pair<Value, Value>;

Value entries(Interpreter& interpreter, const Value& subject, const Arguments&) {
  return parts_of(interpreter, subject, [](const Entry& e) {
    return Value(tuple_of({e.first, e.second}));
  });
}

Value keys(Interpreter& interpreter, const Value& subject, const Arguments&) {
  return parts_of(interpreter, subject, [](const Entry& e) { return e.first; });
}

Value values(Interpreter& interpreter, const Value& subject, const Arguments&) {
  return parts_of(interpreter, subject, [](const Entry& e) { return e.second; });
}

Value copy(Interpreter&, const Value& subject, const Arguments&) { return subject; }

Value refuse_change(Interpreter&, const Value& subject, const Arguments&) {
  fail(ErrorCode::invalid_argument,
       "a {} cannot be changed: methods such as append, pop and update are not allowed in a chat "
       "template; use + or a namespace",
       subject.kind_name());
}

constexpr std::array<Builtin, 10> kDictMethods{{
    {"get", get_entry},
    {"items", entries},
    {"keys", keys},
    {"values", values},
    {"copy", copy},
    {"pop", refuse_change},
    {"update", refuse_change},
    {"setdefault", refuse_change},
    {"clear", refuse_change},
    {"popitem", refuse_change},
}};

Value index_of_item(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("index", arguments, {"value"});
  const auto& items = subject.list()->items;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (equal(items[i], p.value(0), interpreter.budget())) return static_cast<std::int64_t>(i);
  fail(ErrorCode::invalid_argument, "index: the value is not in the list");
}

Value count_of_item(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("count", arguments, {"value"});
  std::int64_t count = 0;
  for (const Value& item : subject.list()->items)
    count += equal(item, p.value(0), interpreter.budget()) ? 1 : 0;
  return count;
}

constexpr std::array<Builtin, 11> kListMethods{{
    {"index", index_of_item},
    {"count", count_of_item},
    {"copy", copy},
    {"append", refuse_change},
    {"extend", refuse_change},
    {"insert", refuse_change},
    {"pop", refuse_change},
    {"remove", refuse_change},
    {"reverse", refuse_change},
    {"sort", refuse_change},
    {"clear", refuse_change},
}};

}  // namespace

BuiltinFunction find_builtin(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Builtin::name);
  return found == table.end() ? nullptr : found->function;
}

BuiltinFunction find_global(std::string_view name) { return find_builtin(kGlobals, name); }

BuiltinFunction find_filter(std::string_view name) {
  for (const auto table : {text_filters(), list_filters(), value_filters(), choice_filters()})
    if (const BuiltinFunction found = find_builtin(table, name)) return found;
  return nullptr;
}

BuiltinFunction find_method(const Value& subject, std::string_view name) {
  if (subject.dict() != nullptr) return find_builtin(kDictMethods, name);
  if (subject.list() != nullptr) return find_builtin(kListMethods, name);
  if (subject.text() == nullptr) return nullptr;
  const BuiltinFunction found = find_builtin(text_methods(), name);
  return found != nullptr ? found : find_builtin(splitting_methods(), name);
}

Value part_of(Interpreter& interpreter, const Value& item, const Value& path) {
  if (path.text() == nullptr) return interpreter.element_of(item, path);
  Value part = item;
  std::string_view rest = path.text()->bytes();
  while (!rest.empty()) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string key(rest.substr(0, dot));
    const bool is_index =
        !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    part =
        interpreter.element_of(part, is_index ? Value(std::int64_t{std::stoi(key)}) : Value(key));
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  return part;
}

}  // namespace clora::jinja
