#include "tests/support/schema_validator.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <regex>

namespace clora::test {
namespace {

using nlohmann::json;

bool has_type(const json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return value.type_name() == type;
}

bool is_date(const std::string& text) {
  int year = 0, month = 0, day = 0;
  if (text.size() != 10 || std::sscanf(text.c_str(), "%4d-%2d-%2d", &year, &month, &day) != 3)
    return false;
  return std::chrono::year_month_day(std::chrono::year(year),
                                     std::chrono::month(static_cast<unsigned>(month)),
                                     std::chrono::day(static_cast<unsigned>(day)))
      .ok();
}

bool is_time(const std::string& text) {
  int hour = 24, minute = 60, second = 60, taken = 0;
  if (std::sscanf(text.c_str(), "%2d:%2d:%2d%n", &hour, &minute, &second, &taken) != 3)
    return false;
  static const std::regex kRest("(\\.\\d+)?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)");
  return hour < 24 && minute < 60 && second < 60 && taken == 8 &&
         std::regex_match(text.substr(8), kRest);
}

bool has_format(const std::string& text, const std::string& format) {
  if (format == "date") return is_date(text);
  if (format == "time") return is_time(text);
  if (format == "date-time")
    return text.size() > 11 && text[10] == 'T' && is_date(text.substr(0, 10)) &&
           is_time(text.substr(11));
  in_addr address{};
  return format != "ipv4" || inet_pton(AF_INET, text.c_str(), &address) == 1;
}

std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

struct Match {
  const json& value;
  const json& schema;
  const json& root;

  bool has(const char* key) const { return schema.contains(key); }
  std::string nested(const json& inner_value, const json& inner_schema) const {
    return schema_mismatch(inner_value, inner_schema, root);
  }

  std::string type() const {
    if (!has("type")) return "";
    const json types = schema["type"].is_array() ? schema["type"] : json::array({schema["type"]});
    const bool fits =
        std::ranges::any_of(types, [&](const json& type) { return has_type(value, type); });
    return fits ? "" : "the type is not " + types.dump();
  }

  std::string values() const {
    if (has("const") && value != schema["const"]) return "is not the const";
    if (!has("enum")) return "";
    return std::ranges::find(schema["enum"], value) != schema["enum"].end() ? "" : "not in enum";
  }

  std::string combined() const {
    if (has("$ref")) {
      const std::string pointer = schema["$ref"].get<std::string>().substr(1);
      if (const auto why = nested(value, root.at(json::json_pointer(pointer))); !why.empty())
        return why;
    }
    for (const json& each : schema.value("allOf", json::array()))
      if (const auto why = nested(value, each); !why.empty()) return why;
    for (const char* key : {"anyOf", "oneOf"}) {
      if (!has(key)) continue;
      if (std::ranges::none_of(schema[key],
                               [&](const json& each) { return nested(value, each).empty(); }))
        return std::string("none of ") + key;
    }
    return "";
  }

  std::string object() const {
    const json properties = schema.value("properties", json::object());
    for (const json& name : schema.value("required", json::array()))
      if (!value.contains(name.get<std::string>())) return "no " + name.dump();
    const json others = schema.value("additionalProperties", json(true));
    for (const auto& [key, inner] : value.items()) {
      const json& inner_schema = properties.contains(key) ? properties[key] : others;
      if (const auto why = nested(inner, inner_schema); !why.empty()) return key + ": " + why;
    }
    if (value.size() < schema.value("minProperties", 0u)) return "too few properties";
    if (value.size() > schema.value("maxProperties", 1000000u)) return "too many properties";
    return "";
  }

  std::string array() const {
    const json prefix = schema.value("prefixItems", json::array());
    const json rest = schema.value("items", json(true));
    for (std::size_t i = 0; i < value.size(); ++i) {
      const auto why = nested(value[i], i < prefix.size() ? prefix[i] : rest);
      if (!why.empty()) return std::to_string(i) + ": " + why;
    }
    if (value.size() < schema.value("minItems", 0u)) return "too few items";
    if (value.size() > schema.value("maxItems", 1000000u)) return "too many items";
    return "";
  }

  std::string string() const {
    const auto text = value.get<std::string>();
    if (characters(text) < schema.value("minLength", 0u)) return "too short";
    if (characters(text) > schema.value("maxLength", 1000000u)) return "too long";
    if (has("pattern") &&
        !std::regex_search(text, std::regex(schema["pattern"].get<std::string>())))
      return "not the pattern";
    if (has("format") && !has_format(text, schema["format"])) return "not the format";
    return "";
  }

  std::string number() const {
    if (has("minimum") && value < schema["minimum"]) return "below minimum";
    if (has("maximum") && value > schema["maximum"]) return "above maximum";
    if (has("exclusiveMinimum") && value <= schema["exclusiveMinimum"]) return "at minimum";
    if (has("exclusiveMaximum") && value >= schema["exclusiveMaximum"]) return "at maximum";
    return "";
  }

  std::string of_its_type() const {
    if (value.is_object()) return object();
    if (value.is_array()) return array();
    if (value.is_string()) return string();
    return value.is_number() ? number() : "";
  }
};

}  // namespace

std::string schema_mismatch(const json& value, const json& schema, const json& root) {
  if (schema.is_boolean()) return schema.get<bool>() ? "" : "the schema is false";
  const Match match{value, schema, root};
  for (const std::string& why :
       {match.type(), match.values(), match.combined(), match.of_its_type()}) {
    if (!why.empty()) return why + " (" + value.dump().substr(0, 100) + ")";
  }
  return "";
}

}  // namespace clora::test
