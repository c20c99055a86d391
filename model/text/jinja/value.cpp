#include "model/text/jinja/value.hpp"

#include <algorithm>

#include "runtime/fail.hpp"

namespace clora::jinja {

std::optional<Value> Object::attribute(std::string_view) const { return std::nullopt; }

Value Object::call(Interpreter&, const Arguments&) {
  fail(ErrorCode::invalid_argument, "{} is not callable", name());
}

void check_value_depth(std::size_t depth) {
  require(depth <= kMaxValueDepth, "lists and dictionaries nest deeper than {}", kMaxValueDepth);
}

std::size_t depth_of(const std::vector<Value>& items) {
  std::size_t depth = 1;
  for (const Value& item : items) depth = std::max(depth, 1 + item.depth());
  return depth;
}

Value::Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}

Value::Value(List list) {
  list.depth = depth_of(list.items);
  check_value_depth(list.depth);
  data_ = std::make_shared<const List>(std::move(list));
}

Value::Value(Dict dict) {
  dict.depth = 1;
  for (const auto& [key, value] : dict.entries)
    dict.depth = std::max({dict.depth, 1 + value.depth(), 1 + key.depth()});
  check_value_depth(dict.depth);
  data_ = std::make_shared<const Dict>(std::move(dict));
}

Value Value::undefined(std::string what) {
  Value value;
  value.data_ = Undefined{std::move(what)};
  return value;
}

namespace {

template <class Pointer>
auto* get_pointer(const Value::Data& data) {
  const Pointer* found = std::get_if<Pointer>(&data);
  return found == nullptr ? nullptr : found->get();
}

}  // namespace

const Text* Value::text() const { return get_pointer<std::shared_ptr<const Text>>(data_); }
const List* Value::list() const { return get_pointer<std::shared_ptr<const List>>(data_); }
const Dict* Value::dict() const { return get_pointer<std::shared_ptr<const Dict>>(data_); }
Object* Value::object() const { return get_pointer<std::shared_ptr<Object>>(data_); }

std::optional<std::int64_t> Value::as_integer() const {
  if (const bool* b = boolean()) return *b ? 1 : 0;
  if (const std::int64_t* i = integer()) return *i;
  return std::nullopt;
}

std::optional<double> Value::as_real() const {
  if (const double* d = real()) return *d;
  const auto i = as_integer();
  return i ? std::optional(static_cast<double>(*i)) : std::nullopt;
}

bool Value::truth() const {
  if (is_undefined() || is_none()) return false;
  if (const auto number = as_real()) return *number != 0;
  if (const Text* t = text()) return !t->empty();
  if (const List* l = list()) return !l->items.empty();
  if (const Dict* d = dict()) return !d->entries.empty();
  return true;
}

const char* Value::kind_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (boolean() != nullptr) return "bool";
  if (integer() != nullptr) return "int";
  if (real() != nullptr) return "float";
  if (text() != nullptr) return "str";
  if (const List* l = list()) return l->is_tuple ? "tuple" : "list";
  return dict() != nullptr ? "dict" : "object";
}

std::size_t Value::depth() const {
  if (const List* l = list()) return l->depth;
  if (const Dict* d = dict()) return d->depth;
  return object() != nullptr ? object()->depth() : 0;
}

const void* Value::identity() const {
  if (const Text* t = text()) return t;
  if (const List* l = list()) return l;
  if (const Dict* d = dict()) return d;
  return object();
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    const Text* text = name.text();
    if (text != nullptr && text->bytes() == key) return &value;
  }
  return nullptr;
}

const Value* Dict::find_key(const Value& key) const {
  if (const Text* text = key.text()) return find(std::string_view(text->bytes()));
  for (const auto& [name, value] : entries) {
    if (equal(name, key)) return &value;
  }
  return nullptr;
}

void Dict::set(const Value& key, Value value) {
  if (const Value* found = find_key(key)) {
    *const_cast<Value*>(found) = std::move(value);
  } else {
    entries.emplace_back(key, std::move(value));
  }
}

namespace {

using Json = nlohmann::ordered_json;

Value value_of_number(const Json& json) {
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX) {
    fail(ErrorCode::invalid_argument, "a number of the conversation must fit 64 bits, got {}",
         json.get<std::uint64_t>());
  }
  return json.get<std::int64_t>();
}

}  // namespace

namespace {

Value convert(const Json& json, Origin origin, std::size_t depth) {
  require(depth > 0 || !json.is_structured(),
          "a value of the conversation nests lists and dictionaries deeper than {}",
          kMaxValueDepth);
  if (json.is_string()) return Text(json.get_ref<const std::string&>(), origin);
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number()) return value_of_number(json);
  if (json.is_array()) {
    List list;
    for (const Json& item : json) list.items.push_back(convert(item, origin, depth - 1));
    return list;
  }
  if (json.is_object()) {
    Dict dict;
    for (const auto& [key, value] : json.items())
      dict.entries.emplace_back(Text(key, origin), convert(value, origin, depth - 1));
    return dict;
  }
  return None{};
}

}  // namespace

Value value_of(const Json& json, Origin origin) { return convert(json, origin, kMaxValueDepth); }

namespace {

bool equal_lists(const List& a, const List& b, std::size_t& work) {
  if (a.is_tuple != b.is_tuple || a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(a.items[i], b.items[i], work)) return false;
  }
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b, std::size_t& work) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const std::size_t visited = std::min(work, b.entries.size());
    work -= visited;
    const Value* other = b.find_key(key);
    if (other == nullptr || !equal(value, *other, work)) return false;
  }
  return true;
}

}  // namespace

bool equal(const Value& a, const Value& b, std::size_t& work) {
  require(work > 0, "a comparison of the template takes too many steps");
  --work;
  if (const auto x = a.as_integer(), y = b.as_integer(); x && y) return *x == *y;
  if (const auto x = a.as_real(), y = b.as_real(); x && y) return *x == *y;
  if (a.text() != nullptr && b.text() != nullptr) return a.text()->bytes() == b.text()->bytes();
  if (a.list() != nullptr && b.list() != nullptr) return equal_lists(*a.list(), *b.list(), work);
  if (a.dict() != nullptr && b.dict() != nullptr) return equal_dicts(*a.dict(), *b.dict(), work);
  if (a.is_undefined() || a.is_none())
    return a.is_undefined() == b.is_undefined() && a.is_none() == b.is_none();
  return a.object() != nullptr && a.object() == b.object();
}

bool equal(const Value& a, const Value& b) {
  std::size_t work = 1'000'000;
  return equal(a, b, work);
}

}  // namespace clora::jinja
