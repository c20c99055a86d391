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

}  // namespace

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
  if (schema.contains("$ref")) all = product(all, {Json{{"$ref", schema.at("$ref")}}}, path);
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
  for (const Json& each : of(resolve_reference(root_, alternative.at("$ref"), path), path)) {
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
