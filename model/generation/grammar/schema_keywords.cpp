#include "model/generation/grammar/schema_keywords.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <set>
#include <utility>

namespace clora::grammar {
namespace {

// The form of a keyword's value.
enum class Form {
  annotation,
  schema,
  schemas,
  schema_map,
  types,
  any,
  values,
  count,
  number,
  text,
  reference,
  texts,
  not_set
};

struct Keyword {
  std::string_view name;
  Form form;
  std::string_view type = {};  // of the values that it restricts
};

constexpr std::array kKeywords{
    Keyword{"type", Form::types},
    Keyword{"enum", Form::values},
    Keyword{"const", Form::any},
    Keyword{"$ref", Form::reference},
    Keyword{"anyOf", Form::schemas},
    Keyword{"oneOf", Form::schemas},
    Keyword{"allOf", Form::schemas},
    Keyword{"$defs", Form::schema_map},
    Keyword{"definitions", Form::schema_map},
    Keyword{"properties", Form::schema_map, "object"},
    Keyword{"required", Form::texts, "object"},
    Keyword{"additionalProperties", Form::schema, "object"},
    Keyword{"minProperties", Form::count, "object"},
    Keyword{"maxProperties", Form::count, "object"},
    Keyword{"items", Form::schema, "array"},
    Keyword{"prefixItems", Form::schemas, "array"},
    Keyword{"minItems", Form::count, "array"},
    Keyword{"maxItems", Form::count, "array"},
    Keyword{"uniqueItems", Form::not_set, "array"},
    Keyword{"minLength", Form::count, "string"},
    Keyword{"maxLength", Form::count, "string"},
    Keyword{"pattern", Form::text, "string"},
    Keyword{"format", Form::text, "string"},
    Keyword{"minimum", Form::number, "number"},
    Keyword{"maximum", Form::number, "number"},
    Keyword{"exclusiveMinimum", Form::number, "number"},
    Keyword{"exclusiveMaximum", Form::number, "number"},
    Keyword{"$schema", Form::annotation},
    Keyword{"$id", Form::annotation},
    Keyword{"id", Form::annotation},
    Keyword{"$comment", Form::annotation},
    Keyword{"title", Form::annotation},
    Keyword{"description", Form::annotation},
    Keyword{"default", Form::annotation},
    Keyword{"examples", Form::annotation},
    Keyword{"example", Form::annotation},
    Keyword{"deprecated", Form::annotation},
    Keyword{"readOnly", Form::annotation},
    Keyword{"writeOnly", Form::annotation},
    Keyword{"contentEncoding", Form::annotation},
    Keyword{"contentMediaType", Form::annotation},
    Keyword{"discriminator", Form::annotation},
};

const Keyword* find_keyword(std::string_view name) {
  const auto found = std::ranges::find(kKeywords, name, &Keyword::name);
  return found == kKeywords.end() ? nullptr : &*found;
}

constexpr std::array<std::string_view, 7> kTypes{"object",  "array",   "string", "number",
                                                 "integer", "boolean", "null"};

// The schemas that are still to be checked, each once.
class Schemas {
 public:
  explicit Schemas(const Json& root) : root_(root) { add(root, "#"); }

  void add(const Json& schema, const std::string& path) {
    if (seen_.insert(&schema).second) open_.emplace_back(&schema, path);
  }
  void add_reference(const Json& pointer, const std::string& path) {
    add(resolve_reference(root_, pointer, path), pointer.get<std::string>());
  }
  std::optional<std::pair<const Json*, std::string>> next() {
    if (open_.empty()) return std::nullopt;
    auto first = std::move(open_.front());
    open_.pop_front();
    return first;
  }

 private:
  const Json& root_;
  std::set<const Json*> seen_;
  std::deque<std::pair<const Json*, std::string>> open_;
};

// Checks the value of a keyword.
class Check {
 public:
  Check(std::string_view keyword, const Json& value, std::string path, Schemas& schemas)
      : keyword_(keyword), value_(value), path_(std::move(path)), schemas_(schemas) {}

  void run(Form form) const {
    if (form == Form::schema) schemas_.add(value_, path_);
    if (form == Form::schemas) add_schemas();
    if (form == Form::schema_map) add_map();
    if (form == Form::types) expect_types();
    if (form == Form::values) expect(value_.is_array() && !value_.empty(), "a list of values");
    if (form == Form::text || form == Form::reference) expect(value_.is_string(), "a text");
    if (form == Form::reference) schemas_.add_reference(value_, path_);
    if (form == Form::texts)
      expect(value_.is_array() && different_texts(), "a list of different texts");
    if (form == Form::number) expect(value_.is_number(), "a number");
    if (form == Form::count)
      expect(json_integer(value_).value_or(-1) >= 0, "an integer that is not negative");
    if (form == Form::not_set && value_ != Json(false)) {
      refuse_schema(ErrorCode::unsupported, path_, "{} is not supported unless it is false",
                    keyword_);
    }
  }

 private:
  void expect(bool holds, std::string_view what) const {
    if (!holds) {
      refuse_schema(ErrorCode::invalid_argument, path_, "{} must be {}, got {}", keyword_, what,
                    json_excerpt(value_));
    }
  }
  bool different_texts() const {
    std::set<std::string> texts;
    return std::ranges::all_of(value_, [&](const Json& each) {
      return each.is_string() && texts.insert(each.get<std::string>()).second;
    });
  }
  void add_schemas() const {
    expect(value_.is_array() && !value_.empty(), "a list of at least one schema");
    for (std::size_t i = 0; i < value_.size(); ++i)
      schemas_.add(value_[i], path_of(path_, std::to_string(i)));
  }
  void add_map() const {
    expect(value_.is_object(), "an object of schemas");
    for (const auto& [key, schema] : value_.items()) schemas_.add(schema, path_of(path_, key));
  }
  void expect_types() const {
    const auto is_type = [](const Json& each) {
      return each.is_string() &&
             std::ranges::find(kTypes, each.get_ref<const std::string&>()) != kTypes.end();
    };
    const bool is_list =
        value_.is_array() && !value_.empty() && std::ranges::all_of(value_, is_type);
    expect(is_list || is_type(value_),
           "one of object, array, string, number, integer, boolean, null, or a list of these");
  }

  std::string_view keyword_;
  const Json& value_;
  std::string path_;
  Schemas& schemas_;
};

void check_keywords(const Json& schema, const std::string& path, Schemas& schemas) {
  if (schema.is_boolean()) return;
  if (!schema.is_object()) {
    refuse_schema(ErrorCode::invalid_argument, path,
                  "a schema must be an object, true or false, got {}", json_excerpt(schema));
  }
  for (const auto& [key, value] : schema.items()) {
    const Keyword* keyword = find_keyword(key);
    if (keyword == nullptr) {
      refuse_schema(ErrorCode::unsupported, path,
                    "the keyword {} is not supported; remove it, or describe the value by others",
                    json_excerpt(Json(key)));
    }
    Check(key, value, path_of(path, key), schemas).run(keyword->form);
  }
}

}  // namespace

void check_schema(const Json& root) {
  Schemas schemas(root);
  while (const auto next = schemas.next()) check_keywords(*next->first, next->second, schemas);
}

bool is_annotation(std::string_view keyword) {
  const Keyword* found = find_keyword(keyword);
  return found != nullptr &&
         (found->form == Form::annotation || keyword == "$defs" || keyword == "definitions");
}

std::string_view type_of_keyword(std::string_view keyword) {
  const Keyword* found = find_keyword(keyword);
  return found == nullptr ? std::string_view() : found->type;
}

std::string path_of(const std::string& path, std::string_view key) {
  constexpr std::size_t kMaxPath = 300;  // in messages
  std::string result = path + "/";
  for (const char c : key.substr(0, 100)) {
    if (c == '~') result += "~0";
    if (c == '/') result += "~1";
    if (c != '~' && c != '/') result += c;
  }
  return result.size() > kMaxPath ? path : result;
}

}  // namespace clora::grammar
