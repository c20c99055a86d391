#include "model/generation/grammar/schema_keywords.hpp"

#include <algorithm>
#include <array>
#include <set>

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
    Keyword{"$ref", Form::text},
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

class Check {
 public:
  Check(std::string_view keyword, const Json& value, std::string path)
      : keyword_(keyword), value_(value), path_(std::move(path)) {}

  void run(Form form) const {
    if (form == Form::schema) check_keywords(value_, path_);
    if (form == Form::schemas) check_schemas();
    if (form == Form::schema_map) check_map();
    if (form == Form::types) check_types();
    if (form == Form::values) expect(value_.is_array() && !value_.empty(), "a list of values");
    if (form == Form::text) expect(value_.is_string(), "a text");
    if (form == Form::texts)
      expect(value_.is_array() && different_texts(), "a list of different texts");
    if (form == Form::number) expect(value_.is_number(), "a number");
    if (form == Form::count) {
      expect(json_integer(value_).value_or(-1) >= 0, "an integer that is not negative");
    }
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
  void check_schemas() const {
    if (keyword_ == "items" || !value_.is_array()) expect(false, "a list of schemas");
    expect(!value_.empty(), "a list of at least one schema");
    for (std::size_t i = 0; i < value_.size(); ++i)
      check_keywords(value_[i], path_of(path_, std::to_string(i)));
  }
  void check_map() const {
    expect(value_.is_object(), "an object of schemas");
    for (const auto& [key, schema] : value_.items()) check_keywords(schema, path_of(path_, key));
  }
  void check_types() const {
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
};

}  // namespace

void check_keywords(const Json& schema, const std::string& path) {
  if (schema.is_boolean()) return;
  if (!schema.is_object()) {
    refuse_schema(ErrorCode::invalid_argument, path,
                  "a schema must be an object, true or false, "
                  "got {}",
                  json_excerpt(schema));
  }
  for (const auto& [key, value] : schema.items()) {
    const Keyword* keyword = find_keyword(key);
    if (keyword == nullptr) {
      refuse_schema(ErrorCode::unsupported, path,
                    "the keyword {} is not supported; remove it, or describe the value by others",
                    json_excerpt(Json(key)));
    }
    Check(key, value, path_of(path, key)).run(keyword->form);
  }
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
