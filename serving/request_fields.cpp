#include "serving/request_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "clora/runtime/files/json.hpp"

namespace clora {
namespace {

using json = RequestJson;

bool inside(double number, NumberRange range) {
  return std::isfinite(number) && number <= range.high &&
         (range.above ? number > range.low : number >= range.low);
}

std::string words_of(NumberRange range) {
  if (range.above) return fmt::format("a number above {} and at most {}", range.low, range.high);
  return fmt::format("a number from {} to {}", range.low, range.high);
}

}  // namespace

RequestFields::RequestFields(const json& object, std::string path)
    : object_(&object), path_(std::move(path)) {
  if (!object.is_object()) wrong("", "an object", object);
}

const json* RequestFields::find(std::string_view name) {
  known_.emplace(name);
  const auto at = object_->find(std::string(name));
  return at == object_->end() || at->is_null() ? nullptr : &*at;
}

const json& RequestFields::required(std::string_view name) {
  const json* value = find(name);
  if (value == nullptr) {
    throw RequestError({.param = path_of(name), .code = "missing_required_parameter"},
                       fmt::format("the field {} is missing", path_of(name)));
  }
  return *value;
}

std::optional<std::int64_t> RequestFields::integer(std::string_view name, IntegerRange range) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<std::int64_t> number = json_integer(*value);
  if (!number || *number < range.low || *number > range.high) {
    wrong(name, fmt::format("an integer from {} to {}", range.low, range.high), *value);
  }
  return number;
}

std::optional<double> RequestFields::number(std::string_view name, NumberRange range) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !inside(value->get<double>(), range)) {
    wrong(name, words_of(range), *value);
  }
  return value->get<double>();
}

std::optional<std::string> RequestFields::text(std::string_view name) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) wrong(name, "a string", *value);
  return value->get<std::string>();
}

std::optional<bool> RequestFields::flag(std::string_view name) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) wrong(name, "true or false", *value);
  return value->get<bool>();
}

std::vector<std::string> RequestFields::texts(std::string_view name, TextsLimit limit) {
  const json* value = find(name);
  if (value == nullptr) return {};
  const auto check = [&](const json& text) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty() ||
        text.get_ref<const std::string&>().size() > limit.bytes) {
      wrong(name, fmt::format("a string of 1 to {} bytes, or an array of them", limit.bytes), text);
    }
    return text.get<std::string>();
  };
  if (!value->is_array()) return {check(*value)};
  if (value->size() > limit.count) {
    wrong(name, fmt::format("an array of at most {} strings", limit.count), *value);
  }
  std::vector<std::string> texts;
  std::ranges::transform(*value, std::back_inserter(texts), check);
  return texts;
}

std::vector<std::int32_t> RequestFields::ids(std::string_view name) {
  const json& value = required(name);
  if (!value.is_array()) wrong(name, "an array of token ids", value);
  std::vector<std::int32_t> ids;
  for (const json& each : value) {
    const auto id = json_integer(each);
    if (!id || *id < 0 || *id > std::numeric_limits<std::int32_t>::max()) {
      wrong(name, "an array of token ids", each);
    }
    ids.push_back(static_cast<std::int32_t>(*id));
  }
  return ids;
}

void RequestFields::accept_only(std::string_view name, const json& harmless) {
  const json* value = find(name);
  if (value == nullptr || *value == harmless) return;
  throw RequestError({.param = path_of(name), .code = "unsupported_parameter"},
                     fmt::format("the field {} is not supported: it must be absent or {}, got {}",
                                 path_of(name), json_text(harmless), json_excerpt(*value)));
}

void RequestFields::ignore(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) known_.emplace(name);
}

void RequestFields::refuse_others() const {
  for (const auto& [name, value] : object_->items()) {
    if (known_.contains(name) || value.is_null()) continue;
    throw RequestError({.param = path_of(name), .code = "unknown_parameter"},
                       fmt::format("unknown field {}; known fields: {}",
                                   path_of(quoted_excerpt(name)), fmt::join(known_, ", ")));
  }
}

std::string RequestFields::path_of(std::string_view name) const {
  const std::string_view shown = name.substr(0, 64);
  if (path_.empty()) return std::string(shown);
  return shown.empty() ? path_ : fmt::format("{}.{}", path_, shown);
}

void RequestFields::wrong(std::string_view name, std::string_view wanted, const json& got) const {
  const std::string path = path_of(name);
  throw RequestError({.param = path, .code = "invalid_value"},
                     fmt::format("{} must be {}, got {}", path.empty() ? "the request" : path,
                                 wanted, json_excerpt(got)));
}

}  // namespace clora
