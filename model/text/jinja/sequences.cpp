// Items and slices of operators.hpp.
#include <algorithm>

#include "model/text/jinja/operators.hpp"
#include "model/text/utf8.hpp"
#include "runtime/fail.hpp"

namespace clora::jinja {
namespace {

// The number of items or characters, or -1 for values without.
std::int64_t length_of(const Value& value) {
  if (const Text* text = value.text())
    return static_cast<std::int64_t>(character_count(text->bytes()));
  if (const List* list = value.list()) return static_cast<std::int64_t>(list->items.size());
  return -1;
}

Value missing(const Value& value, const Value& key) {
  const std::string name = key.text() != nullptr      ? fmt::format("'{}'", key.text()->bytes())
                           : key.integer() != nullptr ? std::to_string(*key.integer())
                                                      : std::string("this key");
  return Value::undefined(
      fmt::format("a value of type '{}' has no element {}", value.kind_name(), name));
}

Value character_of(const Text& text, std::int64_t index) {
  const std::size_t begin = byte_of_character(text.bytes(), static_cast<std::size_t>(index));
  return text.slice(begin, begin + read_utf8(text.bytes(), begin).length);
}

struct Bounds {
  std::int64_t begin, end, step;
};

std::int64_t integer_or(const Value& value, std::int64_t otherwise) {
  if (value.is_none()) return otherwise;
  require_defined(value);
  require(value.as_integer().has_value(), "a bound of a slice must be an integer, got {}",
          value.kind_name());
  return *value.as_integer();
}

std::int64_t clipped(std::int64_t at, std::int64_t length, bool forwards) {
  if (at < 0) at = std::max(at, -length - 1) + length;
  if (forwards) return std::clamp<std::int64_t>(at, 0, length);
  return std::clamp<std::int64_t>(at, -1, length - 1);
}

// As Python's slice.indices().
Bounds bounds_of(const Value& begin, const Value& end, const Value& step, std::int64_t length) {
  Bounds bounds{0, 0, integer_or(step, 1)};
  require(bounds.step != 0, "the step of a slice must not be zero");
  const bool forwards = bounds.step > 0;
  bounds.begin = begin.is_none() ? (forwards ? 0 : length - 1)
                                 : clipped(integer_or(begin, 0), length, forwards);
  bounds.end =
      end.is_none() ? (forwards ? length : -1) : clipped(integer_or(end, 0), length, forwards);
  bounds.step = std::clamp(bounds.step, -length - 1, length + 1);
  return bounds;
}

template <class Visit>
void visit(const Bounds& bounds, Visit visit) {
  for (std::int64_t i = bounds.begin; bounds.step > 0 ? i < bounds.end : i > bounds.end;
       i += bounds.step)
    visit(static_cast<std::size_t>(i));
}

Value slice_of_text(const Text& text, const Bounds& bounds) {
  const std::string& bytes = text.bytes();
  if (bounds.step == 1) {
    const auto at = [&](std::int64_t i) {
      return byte_of_character(bytes, static_cast<std::size_t>(i));
    };
    return bounds.begin < bounds.end ? text.slice(at(bounds.begin), at(bounds.end)) : Text();
  }
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < bytes.size(); i += read_utf8(bytes, i).length) begins.push_back(i);
  begins.push_back(bytes.size());
  Text out;
  visit(bounds, [&](std::size_t i) { out.append_slice(text, begins[i], begins[i + 1]); });
  return out;
}

}  // namespace

Value item_of(const Value& value, const Value& key, WorkBudget& budget) {
  require_defined(value);
  if (const Dict* dict = value.dict()) {
    budget.step(1 + dict->entries.size() / 8);
    const Value* found = dict->find_key(key);
    return found == nullptr ? missing(value, key) : *found;
  }
  const std::int64_t length = length_of(value);
  if (length < 0 || !key.as_integer()) return missing(value, key);
  std::int64_t index = *key.as_integer();
  if (index < 0) index = std::max(index, -length - 1) + length;
  if (index < 0 || index >= length) return missing(value, key);
  budget.step(1 + (value.text() != nullptr ? value.text()->size() / 64 : 0));
  return value.text() != nullptr ? character_of(*value.text(), index)
                                 : value.list()->items[static_cast<std::size_t>(index)];
}

Value slice_of(const Value& value, const Value& begin, const Value& end, const Value& step,
               WorkBudget& budget) {
  require_defined(value);
  const std::int64_t length = length_of(value);
  if (length < 0)
    return Value::undefined(fmt::format("a value of type '{}' has no slices", value.kind_name()));
  const Bounds bounds = bounds_of(begin, end, step, length);
  if (const Text* text = value.text()) {
    budget.text(text->size());
    return slice_of_text(*text, bounds);
  }
  List out{.items = {}, .is_tuple = value.list()->is_tuple};
  budget.step(static_cast<std::size_t>(length));
  visit(bounds, [&](std::size_t i) { out.items.push_back(value.list()->items[i]); });
  return out;
}

std::vector<Value> items_of(const Value& value, WorkBudget& budget, std::string_view who) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (const List* list = value.list()) {
    items = list->items;
  } else if (const Dict* dict = value.dict()) {
    for (const auto& [key, content] : dict->entries) items.push_back(key);
  } else if (const Text* text = value.text()) {
    budget.text(text->size());
    for (std::size_t i = 0; i < text->size();) {
      const std::size_t end = i + read_utf8(text->bytes(), i).length;
      items.emplace_back(text->slice(i, end));
      i = end;
    }
  } else {
    fail(ErrorCode::invalid_argument, "{}: a value of type '{}' cannot be iterated", who,
         value.kind_name());
  }
  budget.step(items.size());
  return items;
}

}  // namespace clora::jinja
