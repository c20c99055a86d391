// merged() of schema_alternatives.hpp.
#include <algorithm>

#include "model/generation/grammar/schema_alternatives.hpp"

namespace clora::grammar {
namespace {

Json as_list(const Json& value) { return value.is_array() ? value : Json::array({value}); }

bool contains(const Json& list, const Json& value) {
  return std::ranges::find(list, value) != list.end();
}

Json common_types(const Json& left, const Json& right) {
  Json common = Json::array();
  const Json a = as_list(left), b = as_list(right);
  for (const Json& type : a) {
    const bool is_wider = type == "integer" && contains(b, "number");
    if (contains(b, type) || is_wider) common.push_back(type);
  }
  if (contains(a, "number") && !contains(common, "number") && contains(b, "integer") &&
      !contains(common, "integer"))
    common.push_back("integer");
  return common;
}

Json common_values(const Json& left, const Json& right) {
  Json common = Json::array();
  for (const Json& value : left) {
    if (contains(right, value)) common.push_back(value);
  }
  return common;
}

Json both_lists(Json left, const Json& right) {
  for (const Json& value : right) {
    if (!contains(left, value)) left.push_back(value);
  }
  return left;
}

Json both_schemas(const Json& left, const Json& right) {
  if (left == right) return left;
  if (left.is_object() && left.size() == 1 && left.contains("allOf")) {
    Json more = left;
    more["allOf"].push_back(right);
    return more;
  }
  return Json{{"allOf", Json::array({left, right})}};
}

Json both_maps(Json left, const Json& right) {
  for (const auto& [key, schema] : right.items())
    left[key] = left.contains(key) ? both_schemas(left[key], schema) : schema;
  return left;
}

// additionalProperties is about the properties beside it only, so that it means another set of keys
// after more properties are merged into its object.
void refuse_foreign_properties(const Json& closed, const Json& other, const std::string& path) {
  const auto additional = closed.find("additionalProperties");
  const auto properties = other.find("properties");
  if (additional == closed.end() || *additional == Json(true) || properties == other.end()) return;
  for (const auto& [key, schema] : properties->items()) {
    if (closed.contains("properties") && closed.at("properties").contains(key)) continue;
    refuse_schema(ErrorCode::unsupported, path,
                  "additionalProperties must be true or absent in schemas that are combined with "
                  "others that have more properties, here {}",
                  json_excerpt(Json(key)));
  }
}

// items is about those after prefixItems beside it.
void refuse_items_of_others(const Json& prefixed, const Json& other, const std::string& path) {
  if (!prefixed.contains("prefixItems") || other.contains("prefixItems")) return;
  if (!other.contains("items")) return;
  refuse_schema(ErrorCode::unsupported, path,
                "prefixItems cannot be combined with the items of another schema");
}

void merge_keyword(Json& into, const std::string& key, const Json& value, const std::string& path) {
  Json& own = into[key];
  if (own == value) return;
  if (key == "type") {
    own = common_types(own, value);
  } else if (key == "enum") {
    own = common_values(own, value);
  } else if (key == "required") {
    own = both_lists(own, value);
  } else if (key == "properties") {
    own = both_maps(own, value);
  } else if (key == "additionalProperties" || key == "items") {
    own = both_schemas(own, value);
  } else if (key.starts_with("min") || key == "exclusiveMinimum") {
    own = std::max(own, value);
  } else if (key.starts_with("max") || key == "exclusiveMaximum") {
    own = std::min(own, value);
  } else {
    refuse_schema(ErrorCode::unsupported, path, "two different values of {} cannot be combined",
                  key);
  }
}

}  // namespace

std::optional<Json> merged(const Json& left, const Json& right, const std::string& path) {
  refuse_foreign_properties(left, right, path);
  refuse_foreign_properties(right, left, path);
  refuse_items_of_others(left, right, path);
  refuse_items_of_others(right, left, path);
  Json both = left;
  for (const auto& [key, value] : right.items()) {
    if (both.contains(key)) {
      merge_keyword(both, key, value, path);
    } else {
      both[key] = value;
    }
  }
  for (const char* key : {"type", "enum"}) {
    if (both.contains(key) && both.at(key).empty()) return std::nullopt;
  }
  return both;
}

}  // namespace clora::grammar
