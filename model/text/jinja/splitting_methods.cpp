// Methods of texts that cut or join them (builtins.hpp): Python's str methods.
#include <array>

#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/interpreter.hpp"
#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/parameters.hpp"
#include "model/text/jinja/text_parts.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {
namespace {

Value list_of(std::vector<Text> parts) {
  List list;
  for (Text& part : parts) list.items.emplace_back(std::move(part));
  return list;
}

// An argument that is not given, or None.
bool is_absent(const Value* value) { return value == nullptr || value->is_none(); }

template <bool left, bool right>
Value strip(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("strip", arguments, {"chars"});
  interpreter.budget().text(subject.text()->size());
  const Ends ends{.left = left, .right = right};
  if (is_absent(p.find(0))) return stripped(*subject.text(), ends, nullptr);
  const Text set = p.text(0);
  return stripped(*subject.text(), ends, &set);
}

template <bool from_right>
Value split_at(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("split", arguments, {"sep", "maxsplit"});
  const std::int64_t limit = p.integer(1, -1);
  const bool at_white = is_absent(p.find(0));
  const Text separator = at_white ? Text() : p.text(0);
  const Text* mark = at_white ? nullptr : &separator;
  WorkBudget& budget = interpreter.budget();
  return list_of(from_right ? split_from_right(*subject.text(), mark, limit, budget)
                            : split(*subject.text(), mark, limit, budget));
}

Value split_lines(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("splitlines", arguments, {"keepends"});
  return list_of(lines_of(*subject.text(), p.flag(0, false), interpreter.budget()));
}

template <bool from_right>
Value partition(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("partition", arguments, {"sep"});
  const Text& text = *subject.text();
  const Text separator = p.text(0);
  require(!separator.empty(), "partition: the separator is empty");
  interpreter.budget().text(text.size());
  const std::size_t at =
      from_right ? text.bytes().rfind(separator.bytes()) : text.bytes().find(separator.bytes());
  if (at == std::string::npos)
    return from_right ? tuple_of({"", "", text}) : tuple_of({text, "", ""});
  const std::size_t after = at + separator.size();
  return tuple_of({text.slice(0, at), text.slice(at, after), text.slice(after, text.size())});
}

Value replace(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("replace", arguments, {"old", "new", "count"});
  return replaced(*subject.text(), p.text(0), p.text(1), p.integer(2, -1), interpreter.budget());
}

Value join(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("join", arguments, {"iterable"});
  std::vector<Text> parts;
  for (const Value& item : items_of(p.value(0), interpreter.budget(), "join")) {
    require(item.text() != nullptr, "join: an item must be a str, got {}", item.kind_name());
    parts.push_back(*item.text());
  }
  return joined(parts, *subject.text(), interpreter.budget());
}

Value remove_prefix(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("removeprefix", arguments, {"prefix"});
  const Text& text = *subject.text();
  interpreter.budget().text(text.size());
  return text.bytes().starts_with(p.text(0).bytes()) ? text.slice(p.text(0).size(), text.size())
                                                     : text;
}

Value remove_suffix(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("removesuffix", arguments, {"suffix"});
  const Text& text = *subject.text();
  interpreter.budget().text(text.size());
  return text.bytes().ends_with(p.text(0).bytes()) ? text.slice(0, text.size() - p.text(0).size())
                                                   : text;
}

constexpr std::array<Builtin, 12> kMethods{{
    {"strip", strip<true, true>},
    {"lstrip", strip<true, false>},
    {"rstrip", strip<false, true>},
    {"split", split_at<false>},
    {"rsplit", split_at<true>},
    {"splitlines", split_lines},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"replace", replace},
    {"join", join},
    {"removeprefix", remove_prefix},
    {"removesuffix", remove_suffix},
}};

}  // namespace

std::span<const Builtin> splitting_methods() { return kMethods; }

}  // namespace clora::jinja
