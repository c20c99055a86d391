#include "model/generation/grammar/schema_alternatives.hpp"

#include <utility>

namespace clora::grammar {
namespace {

std::size_t values_in(const Json& value) {
  std::size_t count = 1;
  if (value.is_structured()) {
    for (const Json& element : value) count += values_in(element);
  }
  return count;
}

bool is_reference(const Json& schema) { return schema.contains("$ref"); }

// The part of a pointer between slashes, with the escapes of JSON pointers undone.
std::string unescaped(std::string_view part) {
  std::string result;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const bool is_escape = part[i] == '~' && i + 1 < part.size();
    result += is_escape ? (part[++i] == '1' ? '/' : '~') : part[i];
  }
  return result;
}

const Json* child(const Json& value, const std::string& key) {
  if (value.is_object()) {
    const auto found = value.find(key);
    return found == value.end() ? nullptr : &*found;
  }
  if (!value.is_array() || key.empty() || key.size() > 6) return nullptr;
  std::size_t index = 0;
  for (const char c : key) {
    if (c < '0' || c > '9') return nullptr;
    index = index * 10 + static_cast<std::size_t>(c - '0');
  }
  return index < value.size() ? &value[index] : nullptr;
}

}  // namespace

const Json& SchemaAlternatives::resolve(const std::string& reference,
                                        const std::string& path) const {
  if (!reference.starts_with("#") || (reference.size() > 1 && reference[1] != '/')) {
    refuse_schema(ErrorCode::unsupported, path,
                  "$ref must be # or begin with #/, in the same schema, got {}",
                  json_excerpt(Json(reference)));
  }
  const Json* found = &root_;
  std::string_view rest = std::string_view(reference).substr(1);
  while (found != nullptr && !rest.empty()) {
    rest.remove_prefix(1);
    const std::size_t end = std::min(rest.find('/'), rest.size());
    found = child(*found, unescaped(rest.substr(0, end)));
    rest.remove_prefix(end);
  }
  if (found == nullptr || (!found->is_object() && !found->is_boolean())) {
    refuse_schema(ErrorCode::invalid_argument, path, "$ref must name a schema, and {} names none",
                  json_excerpt(Json(reference)));
  }
  return *found;
}

void SchemaAlternatives::spend(const Json& copied, const std::string& path) {
  copied_ += values_in(copied);
  if (copied_ > limits_.copied_values) {
    refuse_schema(ErrorCode::invalid_argument, path,
                  "combining allOf, anyOf and $ref must take at most {} values, got more; "
                  "combine smaller schemas",
                  limits_.copied_values);
  }
}

void SchemaAlternatives::check_count(std::size_t count, const std::string& path) const {
  if (count > limits_.alternatives) {
    refuse_schema(ErrorCode::invalid_argument, path,
                  "allOf and anyOf must give at most {} alternatives, got {}", limits_.alternatives,
                  count);
  }
}

Json SchemaAlternatives::own_keywords(const Json& schema) {
  Json own = Json::object();
  for (const auto& [key, value] : schema.items()) {
    const bool combines = key == "anyOf" || key == "oneOf" || key == "allOf" || key == "$ref";
    if (!combines && key != "const" && !is_annotation(key)) own[key] = value;
  }
  return own;
}

std::vector<Json> SchemaAlternatives::of(const Json& schema, const std::string& path) {
  if (schema.is_boolean()) return schema.get<bool>() ? List{Json::object()} : List{};
  if (depth_ >= limits_.source_depth) {
    refuse_schema(ErrorCode::invalid_argument, path,
                  "allOf, anyOf and $ref must nest at most {} levels; a $ref may lead to itself",
                  limits_.source_depth);
  }
  ++depth_;
  List all{own_keywords(schema)};
  spend(all.front(), path);
  if (const auto at = schema.find("const"); at != schema.end())
    all = product(all, {Json{{"enum", Json::array({*at})}}}, path);
  if (schema.contains("$ref")) all = product(all, of_reference(schema, path), path);
  if (const auto at = schema.find("allOf"); at != schema.end()) {
    for (const Json& each : *at) all = product(all, of(each, path + "/allOf"), path);
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    if (const auto at = schema.find(key); at != schema.end())
      all = product(all, of_any(*at, path_of(path, key)), path);
  }
  --depth_;
  return all;
}

std::vector<Json> SchemaAlternatives::of_reference(const Json& schema, const std::string& path) {
  const Json& reference = schema.at("$ref");
  const auto& pointer = reference.get_ref<const std::string&>();
  check_once(resolve(pointer, path), pointer);
  return {Json{{"$ref", reference}}};
}

// A reference may name a part of the document that is no schema.
void SchemaAlternatives::check_once(const Json& schema, const std::string& path) {
  if (checked_.insert(&schema).second) check_keywords(schema, path);
}

std::vector<Json> SchemaAlternatives::of_any(const Json& schemas, const std::string& path) {
  List all;
  for (const Json& each : schemas) {
    List more = of(each, path);
    check_count(all.size() + more.size(), path);
    std::ranges::move(more, std::back_inserter(all));
  }
  return all;
}

std::vector<Json> SchemaAlternatives::without_reference(const Json& alternative,
                                                        const std::string& path) {
  if (!is_reference(alternative)) return {alternative};
  List all;
  for (const Json& each :
       of(resolve(alternative.at("$ref").get_ref<const std::string&>(), path), path)) {
    ++depth_;  // a reference to a reference may be a cycle
    for (Json& more : without_reference(each, path)) all.push_back(std::move(more));
    --depth_;
  }
  return all;
}

std::vector<Json> SchemaAlternatives::product(const List& left, const List& right,
                                              const std::string& path) {
  check_count(left.size() * right.size(), path);
  List all;
  for (const Json& a : left) {
    for (const Json& b : right) {
      if (a.empty() || b.empty() || a == b) {
        all.push_back(a.empty() ? b : a);
        spend(all.back(), path);
        continue;
      }
      for (const Json& x : without_reference(a, path)) {
        for (const Json& y : without_reference(b, path)) {
          spend(x, path);
          spend(y, path);
          if (std::optional<Json> both = merged(x, y, path)) all.push_back(*std::move(both));
        }
      }
      check_count(all.size(), path);
    }
  }
  return all;
}

}  // namespace clora::grammar
