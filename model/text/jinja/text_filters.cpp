// Filters of texts (builtins.hpp): jinja2's, which take any value as its text.
#include <algorithm>
#include <array>

#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/characters.hpp"
#include "model/text/jinja/interpreter.hpp"
#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/parameters.hpp"
#include "model/text/jinja/text_parts.hpp"
#include "model/text/jinja/value_text.hpp"
#include "model/text/utf8.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {
namespace {

Text same(const Text& text) { return text; }
Text markup(const Text& text) { return text.as_markup(); }

template <Text (*function)(const Text&)>
Value changed(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("a filter of texts", arguments, {});
  const Text text = text_of(subject, interpreter.budget());
  interpreter.budget().text(text.size());
  return function(text);
}

// Unlike the method, the filter begins words after white space and these characters only.
Text title(const Text& text) {
  return titled(text, [](std::int32_t c) {
    return is_python_white(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  });
}

Value trim(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("trim", arguments, {"chars"});
  const Text text = text_of(subject, interpreter.budget());
  interpreter.budget().text(text.size());
  if (p.find(0) == nullptr || p.find(0)->is_none()) return stripped(text, {}, nullptr);
  const Text set = p.text(0);
  return stripped(text, {}, &set);
}

Value replace(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("replace", arguments, {"old", "new", "count"});
  WorkBudget& budget = interpreter.budget();
  const bool everywhere = p.find(2) == nullptr || p.find(2)->is_none();
  return replaced(text_of(subject, budget), text_of(p.value(0), budget),
                  text_of(p.value(1), budget), everywhere ? -1 : p.integer(2), budget);
}

Value format(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  require(arguments.positional.empty() || arguments.named.empty(),
          "format takes positional or named arguments, not both");
  const Text text = text_of(subject, interpreter.budget());
  if (arguments.named.empty())
    return percent_formatted(text, tuple_of(arguments.positional), interpreter.budget());
  Dict dict;
  for (const auto& [name, value] : arguments.named) dict.set(Value(name), value);
  return percent_formatted(text, dict, interpreter.budget());
}

Text spaces(std::int64_t count) {
  require(count <= 10'000, "indent: the width must be at most 10000, got {}", count);
  return Text(std::string(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)), ' '));
}

Value indent(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("indent", arguments, {"width", "first", "blank"});
  WorkBudget& budget = interpreter.budget();
  const bool is_text = p.find(0) != nullptr && p.find(0)->text() != nullptr;
  const Text indentation = is_text ? p.text(0) : spaces(p.integer(0, 4));
  Text text = text_of(subject, budget);
  text.append("\n");
  const std::vector<Text> lines = lines_of(text, false, budget);
  Text out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n");
    const bool indents = i == 0 ? p.flag(1, false) : p.flag(2, false) || !lines[i].empty();
    if (indents) out.append(indentation);
    out.append(lines[i]);
  }
  budget.text(out.size());
  return out;
}

Value center(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("center", arguments, {"width"});
  const Text text = text_of(subject, interpreter.budget());
  const std::int64_t width = p.integer(0, 80);
  const std::int64_t missing =
      std::max<std::int64_t>(width - static_cast<std::int64_t>(character_count(text.bytes())), 0);
  const std::int64_t left = missing / 2 + (missing & width & 1);
  return filled(text, left, missing - left, " ", interpreter.budget());
}

Value truncate(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("truncate", arguments, {"length", "killwords", "end", "leeway"});
  WorkBudget& budget = interpreter.budget();
  const Text text = text_of(subject, budget);
  const Text end = p.text(2, "...");
  const std::int64_t length = p.integer(0, 255);
  const auto end_length = static_cast<std::int64_t>(character_count(end.bytes()));
  require(length >= end_length, "truncate: the length must be at least {}, got {}", end_length,
          length);
  if (static_cast<std::int64_t>(character_count(text.bytes())) <= length + p.integer(3, 5))
    return text;
  Text out =
      text.slice(0, byte_of_character(text.bytes(), static_cast<std::size_t>(length - end_length)));
  const Text space(" ");
  if (!p.flag(1, false)) out = split_from_right(out, &space, 1, budget).front();
  out.append(end);
  return out;
}

Value word_count(Interpreter& interpreter, const Value& subject, const Arguments&) {
  const std::string bytes = text_of(subject, interpreter.budget()).bytes();
  std::int64_t count = 0;
  bool inside = false;
  for (std::size_t i = 0; i < bytes.size();) {
    const Utf8Char c = read_utf8(bytes, i);
    const bool is_word = is_word_character(c.code_point);
    count += is_word && !inside ? 1 : 0;
    inside = is_word;
    i += c.length;
  }
  return count;
}

constexpr std::array<Builtin, 16> kFilters{{
    {"capitalize", changed<capitalized>},
    {"lower", changed<lower>},
    {"upper", changed<upper>},
    {"title", changed<title>},
    {"escape", changed<escaped>},
    {"e", changed<escaped>},
    {"forceescape", changed<escaped>},
    {"safe", changed<markup>},
    {"string", changed<same>},
    {"trim", trim},
    {"replace", replace},
    {"format", format},
    {"indent", indent},
    {"center", center},
    {"truncate", truncate},
    {"wordcount", word_count},
}};

}  // namespace

std::span<const Builtin> text_filters() { return kFilters; }

}  // namespace clora::jinja
