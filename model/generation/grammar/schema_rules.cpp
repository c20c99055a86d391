#include "model/generation/grammar/schema_rules.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "model/generation/grammar/number_ranges.hpp"
#include "model/generation/grammar/schema_compiler.hpp"

namespace clora::grammar {
namespace {

constexpr std::array<std::string_view, 6> kTypes{"object", "array",   "string",
                                                 "number", "boolean", "null"};

bool has_type(const Json& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "integer") return value.is_number() && decimal_of(value).fraction.empty();
  return type == "boolean" ? value.is_boolean() : value.is_null();
}

// The types that the keywords name; without `type`, those that other keywords restrict.
std::vector<std::string_view> types_of(const Json& keywords) {
  std::vector<std::string_view> types;
  if (const auto at = keywords.find("type"); at != keywords.end()) {
    if (at->is_string()) return {at->get_ref<const std::string&>()};
    for (const Json& each : *at) types.push_back(each.get_ref<const std::string&>());
    return types;
  }
  for (const std::string_view type : kTypes) {
    for (const auto& [key, value] : keywords.items()) {
      if (type_of_keyword(key) != type) continue;
      types.push_back(type);
      break;
    }
  }
  if (types.empty()) types.assign(kTypes.begin(), kTypes.end());
  return types;
}

ExpressionPtr framed(const ExpressionPtr& value, const SchemaFrame& frame) {
  const std::size_t most = frame.between.empty() ? 1 : kUnbounded;
  return sequence({literal(frame.before), list({}, value, literal(frame.between), 1, most),
                   literal(frame.after)});
}

// What makes two schemas the same rule: all but annotations.
std::string text_of(const Json& schema) {
  if (!schema.is_object()) return json_text(schema);
  Json rest = Json::object();
  for (const auto& [key, value] : schema.items()) {
    if (!is_annotation(key)) rest[key] = value;
  }
  return json_text(rest);
}

}  // namespace

std::size_t count_of(const Json& keywords, const char* key, std::size_t otherwise) {
  const auto at = keywords.find(key);
  return at == keywords.end() ? otherwise : static_cast<std::size_t>(*json_integer(*at));
}

RuleSet SchemaCompiler::compile(const SchemaFrame& frame) {
  // Without a frame, the schema's rule is where a text begins.
  const bool is_plain = frame.before.empty() && frame.between.empty() && frame.after.empty();
  const RuleId root = is_plain ? 0 : rules_.add("#");
  if (!is_plain) rules_.set(0, framed(call(root), frame));
  rules_by_text_.emplace(text_of(root_), root);
  tasks_.push_back({root, root_, "#"});
  for (; !tasks_.empty(); tasks_.pop_front()) {
    const Task& task = tasks_.front();
    rules_.set(task.rule, expression_of(task.schema, task.path));
  }
  return std::move(rules_).take();
}

ExpressionPtr SchemaCompiler::value_of(const Json& schema, const std::string& path) {
  const auto [at, is_new] =
      rules_by_text_.emplace(text_of(schema), static_cast<RuleId>(rules_.size()));
  if (is_new) {
    if (rules_.size() >= limits_.rules) {
      refuse_schema(ErrorCode::invalid_argument, path, "at most {} different schemas are supported",
                    limits_.rules);
    }
    (void)rules_.add(path);
    tasks_.push_back({at->second, schema, path});
  }
  return call(at->second);
}

ExpressionPtr SchemaCompiler::expression_of(const Json& schema, const std::string& path) {
  std::vector<ExpressionPtr> parts;
  for (const Json& alternative : alternatives_.of(schema, path)) {
    if (const auto at = alternative.find("$ref"); at != alternative.end()) {
      const Json& named = resolve_reference(root_, *at, path);
      parts.push_back(value_of(named, at->get_ref<const std::string&>()));
    } else {
      parts.push_back(conjunction(alternative, path));
    }
  }
  return choice(std::move(parts));
}

ExpressionPtr SchemaCompiler::conjunction(const Json& keywords, const std::string& path) {
  if (keywords.empty()) return rules_.any_value();
  if (keywords.contains("enum")) return enumeration(keywords, path);
  std::vector<ExpressionPtr> parts;
  for (const std::string_view type : types_of(keywords))
    parts.push_back(of_type(type, keywords, path));
  return choice(std::move(parts));
}

ExpressionPtr SchemaCompiler::of_type(std::string_view type, const Json& keywords,
                                      const std::string& path) {
  if (type == "object") return object_of(keywords, path);
  if (type == "array") return array_of(keywords, path);
  if (type == "string") return string_of(keywords, path);
  if (type == "number") return number_of(false, keywords, path);
  if (type == "integer") return number_of(true, keywords, path);
  if (type == "null") return literal("null");
  return choice({literal("true"), literal("false")});
}

ExpressionPtr SchemaCompiler::enumeration(const Json& keywords, const std::string& path) {
  const std::vector<std::string_view> types = types_of(keywords);
  for (const auto& [key, value] : keywords.items()) {
    if (key == "enum" || key == "type") continue;
    refuse_schema(ErrorCode::unsupported, path,
                  "enum and const cannot be combined with {}; leave out the values it excludes",
                  key);
  }
  std::vector<ExpressionPtr> parts;
  for (const Json& value : keywords.at("enum")) {
    const bool is_of_type =
        std::ranges::any_of(types, [&](std::string_view type) { return has_type(value, type); });
    if (is_of_type) parts.push_back(json_value(value, rules_));
  }
  return choice(std::move(parts));
}

RuleSet rules_of_schema(std::string_view schema, const GrammarLimits& limits,
                        const SchemaFrame& frame) {
  Json root;
  try {
    root = parse_json<Json>(schema, "json schema",
                            {.bytes = limits.source_bytes,
                             .depth = limits.source_depth,
                             .unique_keys = true,
                             .keys = limits.object_keys});
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_argument, error.what());
  }
  check_schema(root);
  return SchemaCompiler(root, limits).compile(frame);
}

}  // namespace clora::grammar
