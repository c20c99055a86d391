// Arrays and objects of schema_compiler.hpp.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "model/generation/grammar/schema_compiler.hpp"
#include "model/text/utf8.hpp"

namespace clora::grammar {
namespace {

using Names = std::vector<std::vector<std::int32_t>>;  // as code points

// Reads the keys that are none of the names character by character: while one begins like a name,
// the next character decides whether it still does.
class OtherKeys {
 public:
  explicit OtherKeys(JsonRules& rules) : rules_(rules) {}

  // The rest of keys that begin like all of these names, whose first `at` characters are read.
  ExpressionPtr after(const Names& names, std::size_t at) const {
    std::vector<ExpressionPtr> parts;
    std::map<std::int32_t, Names> by_next;
    bool ends_name = false;
    for (const std::vector<std::int32_t>& name : names) {
      if (name.size() == at) ends_name = true;
      if (name.size() > at) by_next[name[at]].push_back(name);
    }
    if (!ends_name) parts.push_back(literal(""));
    CodePoints nexts;
    for (const auto& [next, same] : by_next) {
      nexts.add(CodePoints::of(next, next));
      parts.push_back(sequence({json_character(CodePoints::of(next, next)), after(same, at + 1)}));
    }
    parts.push_back(sequence({none_of(nexts), repeat(rules_.character(), 0, kUnbounded)}));
    return choice(std::move(parts));
  }

 private:
  // The rules that all keys share are called where no name takes a part of them.
  ExpressionPtr none_of(const CodePoints& names) const {
    const auto rest_of = [&](std::int32_t first, std::int32_t last, ExpressionPtr whole) {
      const CodePoints all = CodePoints::of(first, last);
      if (all.common_with(names).empty()) return whole;
      return json_character(all.without(names));
    };
    return choice({rest_of(0, 0x1F, rules_.control_character()),
                   json_character(CodePoints::of(0x20, 0x7F).without(names)),
                   rest_of(0x80, 0x10FFFF, rules_.character_beyond_ascii())});
  }

  JsonRules& rules_;
};

bool is_false(const Json* schema) { return schema != nullptr && *schema == Json(false); }

const Json* find(const Json& keywords, const char* key) {
  const auto at = keywords.find(key);
  return at == keywords.end() ? nullptr : &*at;
}

}  // namespace

ExpressionPtr other_keys(std::vector<std::string> names, JsonRules& rules,
                         const GrammarLimits& limits, const std::string& path) {
  Names all;
  for (const std::string& name : names) {
    std::vector<std::int32_t>& characters = all.emplace_back();
    for (std::size_t at = 0; at < name.size();) {
      const Utf8Char c = read_utf8(name, at);
      characters.push_back(c.code_point);
      at += c.length;
    }
    if (characters.size() > limits.key_characters) {
      refuse_schema(ErrorCode::invalid_argument, path,
                    "a property beside additional ones must have at most {} characters, got {}",
                    limits.key_characters, characters.size());
    }
  }
  return sequence({literal("\""), OtherKeys(rules).after(all, 0), literal("\"")});
}

// Without items, prefixItems are all the items there are.
ExpressionPtr SchemaCompiler::array_of(const Json& keywords, const std::string& path) {
  std::vector<ExpressionPtr> parts;
  if (const Json* prefix = find(keywords, "prefixItems")) {
    for (std::size_t i = 0; i < prefix->size(); ++i)
      parts.push_back(value_of((*prefix)[i], path + "/prefixItems/" + std::to_string(i)));
  }
  const Json* items = find(keywords, "items");
  const std::size_t min = count_of(keywords, "minItems", 0);
  std::size_t max = count_of(keywords, "maxItems", kUnbounded);
  ExpressionPtr rest;
  if (is_false(items) || (items == nullptr && !parts.empty())) {
    max = std::min(max, parts.size());
  } else {
    rest = items == nullptr ? rules_.any_value() : value_of(*items, path + "/items");
  }
  if (min > max) return nothing();
  ExpressionPtr elements = max == 0 ? nothing()
                                    : list(std::move(parts), std::move(rest), rules_.separator(),
                                           std::max<std::size_t>(min, 1), max);
  return rules_.array(std::move(elements), min == 0);
}

// Objects without named properties: any keys, whose number can be limited.
ExpressionPtr SchemaCompiler::map_of(const Json& values, const Json& keywords,
                                     const std::string& path) {
  const std::size_t min = count_of(keywords, "minProperties", 0);
  const std::size_t max = count_of(keywords, "maxProperties", kUnbounded);
  check_counts_of_properties(keywords, 0, 0, path);
  if (min > max) return nothing();
  ExpressionPtr member =
      rules_.member(rules_.string(), value_of(values, path + "/additionalProperties"));
  ExpressionPtr elements =
      max == 0 ? nothing() : list({}, std::move(member), rules_.separator(), 1, max);
  return rules_.object(std::move(elements), min == 0);
}

// Required properties that have no schema of their own follow, with that of additional ones.
Json SchemaCompiler::all_properties(const Json& keywords, const Json& additional,
                                    const std::string& path) const {
  const Json* named = find(keywords, "properties");
  Json properties = named != nullptr ? *named : Json::object();
  const Json* required = find(keywords, "required");
  if (required == nullptr) return properties;
  for (const Json& name : *required) {
    if (properties.contains(name.get_ref<const std::string&>())) continue;
    if (additional == Json(false)) {
      refuse_schema(ErrorCode::unsupported, path,
                    "the required property {} must be among properties, unless there is "
                    "additionalProperties",
                    json_excerpt(name));
    }
    properties[name.get_ref<const std::string&>()] = additional;
  }
  return properties;
}

void SchemaCompiler::check_counts_of_properties(const Json& keywords, std::size_t required,
                                                std::size_t most, const std::string& path) {
  const std::size_t min = count_of(keywords, "minProperties", 0);
  if (min > std::max<std::size_t>(required, 1)) {
    refuse_schema(ErrorCode::unsupported, path,
                  "minProperties must be at most 1 or the number of required properties, got {}; "
                  "require properties by their names",
                  min);
  }
  if (count_of(keywords, "maxProperties", kUnbounded) < most) {
    refuse_schema(ErrorCode::unsupported, path,
                  "maxProperties cannot be combined with properties; leave it out, or leave out "
                  "properties");
  }
}

ExpressionPtr SchemaCompiler::object_of(const Json& keywords, const std::string& path) {
  const Json* given = find(keywords, "additionalProperties");
  const Json additional = given != nullptr ? *given : Json(find(keywords, "properties") == nullptr);
  const bool is_open = additional != Json(false);
  const Json properties = all_properties(keywords, additional, path);
  if (properties.empty() && is_open) return map_of(additional, keywords, path);

  std::set<std::string> required;
  if (const Json* listed = find(keywords, "required"))
    for (const Json& name : *listed) required.insert(name.get<std::string>());
  check_counts_of_properties(keywords, required.size(), is_open ? kUnbounded : properties.size(),
                             path);
  std::vector<OrderedPart> parts;
  std::vector<std::string> names;
  for (const auto& [name, schema] : properties.items()) {
    ExpressionPtr value = value_of(schema, path_of(path + "/properties", name));
    parts.push_back({rules_.member(json_string(name), std::move(value)), required.contains(name)});
    names.push_back(name);
  }
  ExpressionPtr rest;
  if (is_open)
    rest = rules_.member(other_keys(names, rules_, limits_, path),
                         value_of(additional, path + "/additionalProperties"));
  const bool may_be_empty = required.empty() && count_of(keywords, "minProperties", 0) == 0;
  return rules_.object(ordered(parts, std::move(rest), rules_.separator()), may_be_empty);
}

}  // namespace clora::grammar
