// Reading the keys of a record: strings that are required, and keys that are refused by name. All
// errors are Error(invalid_data) with a reason only; RecordReader adds the file and the line. Pure
// functions; thread-safe.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/fail.hpp"

namespace clora {

// Keeps the order of keys, which templates write: that of tools and of the arguments of their
// calls.
using RecordJson = nlohmann::ordered_json;

template <class... Args>
[[noreturn]] void bad_record(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::invalid_data, format, std::forward<Args>(args)...);
}

// Whether a value says nothing: null, or an empty string, array or object.
bool is_blank(const RecordJson& value);

// Returns the value of a key, or nullptr if the key is absent or its value is blank.
const RecordJson* find_filled(const RecordJson& object, std::string_view key);

// Errors: the key is absent, or its value is no string (or an empty one).
std::string string_of(const RecordJson& object, std::string_view key);
std::string filled_string_of(const RecordJson& object, std::string_view key);

// Returns the string, or an empty one for an absent key and for null. Errors: another value.
std::string string_or_empty(const RecordJson& object, std::string_view key);

// Throws if one of the keys has a value that is not blank. `where` is "a record" or "a message".
void refuse_keys(const RecordJson& object, std::span<const std::string_view> keys,
                 std::string_view where);

// Refuses the keys with which other programs control what a model is shown or trained on, and which
// no form of record supports: a record with one of them would be trained differently from what it
// specifies. known: those that the requested form supports.
void refuse_keys_of_record(const RecordJson& record,
                           std::initializer_list<std::string_view> known = {});

// Refuses the keys that only a conversation supports: tools, system, ...
void refuse_keys_of_conversation(const RecordJson& record);

// Returns the names of the keys, separated by commas and cut to some length.
std::string names_of_keys(const RecordJson& object);

}  // namespace clora
