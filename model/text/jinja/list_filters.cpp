// Filters of sequences and dictionaries (builtins.hpp).
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

std::vector<Value> items(Interpreter& interpreter, const Value& subject, std::string_view who) {
  return items_of(subject, interpreter.budget(), who);
}

Value first(Interpreter& interpreter, const Value& subject, const Arguments&) {
  const std::vector<Value> all = items(interpreter, subject, "first");
  return all.empty() ? Value::undefined("the sequence is empty: it has no first item")
                     : all.front();
}

Value last(Interpreter& interpreter, const Value& subject, const Arguments&) {
  const std::vector<Value> all = items(interpreter, subject, "last");
  return all.empty() ? Value::undefined("the sequence is empty: it has no last item") : all.back();
}

Value length(Interpreter& interpreter, const Value& subject, const Arguments&) {
  if (const Text* text = subject.text()) {
    interpreter.budget().text(text->size());
    return static_cast<std::int64_t>(character_count(text->bytes()));
  }
  return static_cast<std::int64_t>(items(interpreter, subject, "length").size());
}

Value as_list(Interpreter& interpreter, const Value& subject, const Arguments&) {
  return List{.items = items(interpreter, subject, "list")};
}

Value reverse(Interpreter& interpreter, const Value& subject, const Arguments&) {
  List list{.items = items(interpreter, subject, "reverse")};
  std::ranges::reverse(list.items);
  if (subject.text() == nullptr) return list;
  Text text;
  for (const Value& character : list.items) text.append(*character.text());
  return text;
}

Value entries(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  if (subject.is_undefined()) return List{};
  require(subject.dict() != nullptr, "items needs a dictionary, got {}", subject.kind_name());
  return find_method(subject, "items")(interpreter, subject, arguments);
}

// The part of each item that an argument names; the items themselves without one.
std::vector<Value> parts(Interpreter& interpreter, const std::vector<Value>& all,
                         const Value* path) {
  if (path == nullptr || path->is_none()) return all;
  std::vector<Value> out;
  for (const Value& item : all) out.push_back(part_of(interpreter, item, *path));
  return out;
}

Value join(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("join", arguments, {"d", "attribute"});
  std::vector<Text> texts;
  for (const Value& item : parts(interpreter, items(interpreter, subject, "join"), p.find(1)))
    texts.push_back(text_of(item, interpreter.budget()));
  return joined(texts, p.find(0) == nullptr ? Text() : text_of(p.value(0), interpreter.budget()),
                interpreter.budget());
}

Value sum(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("sum", arguments, {"attribute", "start"});
  Value total = p.find(1) == nullptr ? Value(std::int64_t{0}) : *p.find(1);
  for (const Value& item : parts(interpreter, items(interpreter, subject, "sum"), p.find(0)))
    total = calculate(Operator::add, total, item, interpreter.budget());
  return total;
}

// What items are compared by: texts in lower case unless case matters.
Value key_of(const Value& value, bool case_sensitive) {
  return case_sensitive || value.text() == nullptr ? value : Value(lower(*value.text()));
}

struct Keyed {
  Value key, item;
};

std::vector<Keyed> keyed(Interpreter& interpreter, const std::vector<Value>& all, const Value* path,
                         bool case_sensitive) {
  const std::vector<Value> keys = parts(interpreter, all, path);
  std::vector<Keyed> out;
  for (std::size_t i = 0; i < all.size(); ++i)
    out.push_back({key_of(keys[i], case_sensitive), all[i]});
  return out;
}

// As Python, sort() compares keys for equality first, so that equal ones need no order.
void sort_keyed(Interpreter& interpreter, std::vector<Keyed>& rows, bool reversed) {
  std::ranges::stable_sort(rows, [&](const Keyed& a, const Keyed& b) {
    if (equal(a.key, b.key, interpreter.budget())) return false;
    return reversed ? less(b.key, a.key, interpreter.budget())
                    : less(a.key, b.key, interpreter.budget());
  });
}

Value list_of(const std::vector<Keyed>& rows) {
  List list;
  for (const Keyed& row : rows) list.items.push_back(row.item);
  return list;
}

// "a,b": the later attributes decide between equal ones, so they are sorted by first.
Value sort(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<Value> all = items(interpreter, subject, "sort");
  std::vector<Value> paths;
  if (p.find(2) != nullptr && p.find(2)->text() != nullptr) {
    const Text comma(",");
    for (Text& path : split(*p.find(2)->text(), &comma, -1, interpreter.budget()))
      paths.emplace_back(std::move(path));
  } else {
    paths.push_back(p.find(2) == nullptr ? Value(None{}) : *p.find(2));
  }
  for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
    std::vector<Keyed> rows = keyed(interpreter, all, &*path, p.flag(1, false));
    sort_keyed(interpreter, rows, p.flag(0, false));
    for (std::size_t i = 0; i < rows.size(); ++i) all[i] = rows[i].item;
  }
  return List{.items = std::move(all)};
}

Value dict_sort(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const Value all = entries(interpreter, subject, {});
  const std::string by = p.text(1, "key").bytes();
  require(by == "key" || by == "value", "dictsort: 'by' must be 'key' or 'value', got '{}'", by);
  const Value path(std::int64_t{by == "key" ? 0 : 1});
  std::vector<Keyed> rows = keyed(interpreter, all.list()->items, &path, p.flag(0, false));
  sort_keyed(interpreter, rows, p.flag(2, false));
  return list_of(rows);
}

Value unique(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("unique", arguments, {"case_sensitive", "attribute"});
  std::vector<Keyed> seen;
  for (Keyed& row :
       keyed(interpreter, items(interpreter, subject, "unique"), p.find(1), p.flag(0, false))) {
    const bool found = std::ranges::any_of(
        seen, [&](const Keyed& other) { return equal(other.key, row.key, interpreter.budget()); });
    if (!found) seen.push_back(std::move(row));
  }
  return list_of(seen);
}

template <bool greatest>
Value extreme(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p(greatest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const std::vector<Keyed> rows =
      keyed(interpreter, items(interpreter, subject, "min or max"), p.find(1), p.flag(0, false));
  if (rows.empty()) return Value::undefined("the sequence is empty");
  const Keyed* best = &rows.front();
  for (const Keyed& row : rows) {
    const bool better = greatest ? less(best->key, row.key, interpreter.budget())
                                 : less(row.key, best->key, interpreter.budget());
    if (better) best = &row;
  }
  return best->item;
}

Value batch(Interpreter& interpreter, const Value& subject, const Arguments& arguments) {
  const Parameters p("batch", arguments, {"linecount", "fill_with"});
  const std::int64_t count = p.integer(0);
  require(count > 0 && count <= 100'000, "batch: 'linecount' must be positive, got {}", count);
  List rows, row;
  for (Value& item : items(interpreter, subject, "batch")) {
    row.items.push_back(std::move(item));
    if (row.items.size() < static_cast<std::size_t>(count)) continue;
    rows.items.emplace_back(std::exchange(row, {}));
  }
  if (row.items.empty()) return rows;
  if (p.find(1) != nullptr && !p.find(1)->is_none()) {
    interpreter.budget().step(static_cast<std::size_t>(count));
    row.items.resize(static_cast<std::size_t>(count), *p.find(1));
  }
  rows.items.emplace_back(std::move(row));
  return rows;
}

constexpr std::array<Builtin, 15> kFilters{{
    {"first", first},
    {"last", last},
    {"length", length},
    {"count", length},
    {"list", as_list},
    {"reverse", reverse},
    {"items", entries},
    {"join", join},
    {"sum", sum},
    {"sort", sort},
    {"dictsort", dict_sort},
    {"unique", unique},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"batch", batch},
}};

}  // namespace

std::span<const Builtin> list_filters() { return kFilters; }

}  // namespace clora::jinja
