// Value: what expressions of a template evaluate to, with the meaning of Python's types: undefined,
// None, bool, int (64 bits), float, str, list, tuple, dict, and objects with attributes or calls.
//
// Values are immutable but for namespaces (Object), as in the sandbox of transformers, and share
// their contents; copies are cheap. Values that a rendering makes are used by its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/text/jinja/text.hpp"

namespace clora::jinja {

class Interpreter;
class Value;
struct List;
struct Dict;

// Of lists and dictionaries inside of one another. A deeper Value is Error(invalid_argument).
constexpr std::size_t kMaxValueDepth = 100;

struct Undefined {
  std::string what;  // "'x' is undefined", for errors
};
struct None {};

struct Arguments;

// A value with behaviour: a namespace, a macro, `loop`, a method bound to its value.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string name() const = 0;  // for errors and for printing
  virtual bool is_callable() const { return false; }
  // As Value::depth(), of the values that this object keeps alive; 0 if Interpreter breaks their
  // chain (namespaces and scopes).
  virtual std::size_t depth() const { return 0; }
  virtual std::optional<Value> attribute(std::string_view name) const;  // nullopt: none
  virtual Value call(Interpreter& interpreter, const Arguments& arguments);
};

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, std::int64_t, double,
                            std::shared_ptr<const Text>, std::shared_ptr<const List>,
                            std::shared_ptr<const Dict>, std::shared_ptr<Object>>;

  Value() = default;                                                   // undefined
  Value(None) : data_(None{}) {}                                       // NOLINT
  Value(bool value) : data_(value) {}                                  // NOLINT
  Value(std::int64_t value) : data_(value) {}                          // NOLINT
  Value(double value) : data_(value) {}                                // NOLINT
  Value(Text text);                                                    // NOLINT
  Value(std::string text) : Value(Text(std::move(text))) {}            // NOLINT
  Value(const char* text) : Value(Text(text)) {}                       // NOLINT
  Value(List list);                                                    // NOLINT
  Value(Dict dict);                                                    // NOLINT
  Value(std::shared_ptr<Object> object) : data_(std::move(object)) {}  // NOLINT
  static Value undefined(std::string what);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&data_); }
  const double* real() const { return std::get_if<double>(&data_); }
  // nullptr if the value is of another kind.
  const Text* text() const;
  const List* list() const;  // lists and tuples
  const Dict* dict() const;
  Object* object() const;
  const std::shared_ptr<Object>* shared_object() const {
    return std::get_if<std::shared_ptr<Object>>(&data_);
  }
  const std::string& undefined_what() const { return std::get<Undefined>(data_).what; }

  // bool, int and float as Python calculates with them.
  bool is_number() const {
    return boolean() != nullptr || integer() != nullptr || real() != nullptr;
  }
  std::optional<std::int64_t> as_integer() const;  // of bool and int
  std::optional<double> as_real() const;           // of bool, int and float

  bool truth() const;
  const char* kind_name() const;  // Python's: "str", "int", ...
  std::size_t depth() const;      // of the containers below; 0: none; 1: a flat list
  // The identity of shared contents, for `is sameas`; nullptr for values without.
  const void* identity() const;

 private:
  Data data_;
};

// Positional and keyword arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Throws Error(invalid_argument) above kMaxValueDepth: functions of values, and their destructors,
// recurse.
void check_value_depth(std::size_t depth);
std::size_t depth_of(const std::vector<Value>& items);  // of a list of them

struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  std::size_t depth = 1;  // set by Value
};

// In the order of insertion; keys are unique.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::size_t depth = 1;  // set by Value

  const Value* find(std::string_view key) const;
  const Value* find_key(const Value& key) const;
  void set(const Value& key, Value value);
  void set(const char* key, Value value) { set(Value(key), std::move(value)); }
};

inline List tuple_of(std::vector<Value> items) { return {std::move(items), true}; }

// The value of a JSON document; texts and keys have the origin. Errors: invalid_argument for a
// number beyond 64 bits, or for nesting deeper than kMaxValueDepth.
Value value_of(const nlohmann::ordered_json& json, Origin origin);

// Python's ==. Values may share their parts, so the work is not bounded by their memory: `work` is
// counted down for each comparison of two values. Throws Error(invalid_argument) at zero.
bool equal(const Value& a, const Value& b, std::size_t& work);
bool equal(const Value& a, const Value& b);

}  // namespace clora::jinja
