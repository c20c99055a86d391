// Replies to random schemas: what a grammar admits is valid, and every reply has an end.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>

#include "tests/support/grammar_texts.hpp"
#include "tests/support/schema_validator.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using nlohmann::json;

// Schemas of a few random keywords, of which many exclude each other, and references.
class RandomSchemas {
 public:
  explicit RandomSchemas(std::uint32_t seed) : random_(seed) {}

  json next() {
    json schema = of_depth(3);
    schema["$defs"] = {{"x", of_depth(1)}, {"y", of_depth(1)}};
    return schema;
  }

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  json one_of(std::initializer_list<json> values) {
    return *(values.begin() + below(static_cast<int>(values.size())));
  }
  json type() {
    return one_of({"object", "array", "string", "number", "integer", "boolean", "null"});
  }

  json of_depth(int depth) {
    json schema = json::object();
    for (int n = 1 + below(2); n > 0; --n) {
      add_scalar_keyword(schema);
      if (depth > 0) add_nested_keyword(schema, depth - 1);
    }
    return schema;
  }

  void add_scalar_keyword(json& schema) {
    switch (below(14)) {
      case 0:
        schema["type"] = type();
        break;
      case 1:
        schema["type"] = {type(), type()};
        break;
      case 2:
        schema["required"] = one_of({json::array({"a"}), json::array({"a", "b"})});
        break;
      case 3:
        schema[below(2) == 0 ? "minItems" : "minLength"] = below(4);
        break;
      case 4:
        schema[below(2) == 0 ? "maxItems" : "maxLength"] = below(6);
        break;
      case 5:
        schema["pattern"] = one_of({"^[ab]+c?$", "b", "x|y$", "^\\d{1,3}\\.\\w$"});
        break;
      case 6:
        schema["format"] = one_of({"date", "time", "date-time", "ipv4"});
        break;
      case 7:
        schema["minimum"] = below(400) / 4.0 - 50;
        break;
      case 8:
        schema["maximum"] = below(400) / 4.0 - 50;
        break;
      case 9:
        schema[below(2) == 0 ? "exclusiveMinimum" : "exclusiveMaximum"] = below(40) - 20;
        break;
      case 10:
        schema["enum"] = one_of({{1, 12, "a", "ab", nullptr}, {{1}, {{"a", "\n"}}, 1.5}});
        break;
      case 11:
        schema["$ref"] = one_of({"#", "#/$defs/x", "#/$defs/y"});
        break;
      case 12:
        schema[below(2) == 0 ? "minProperties" : "maxProperties"] = below(3);
        break;
      default:
        schema["additionalProperties"] = below(2) == 0;
    }
  }

  void add_nested_keyword(json& schema, int depth) {
    switch (below(8)) {
      case 0:
      case 1:
        schema["properties"][one_of({"a", "ab", "b", "c"}).get<std::string>()] = of_depth(depth);
        break;
      case 2:
        schema["items"] = of_depth(depth);
        break;
      case 3:
        schema["prefixItems"] = {of_depth(depth), of_depth(depth)};
        break;
      case 4:
        schema["anyOf"] = {of_depth(depth), of_depth(depth)};
        break;
      case 5:
        schema["allOf"] = {of_depth(depth), of_depth(depth)};
        break;
      case 6:
        schema["additionalProperties"] = of_depth(depth);
        break;
      default:
        break;
    }
  }

  std::mt19937 random_;
};

// The grammar; null if the schema is refused with an error of the two kinds.
std::shared_ptr<const TokenGrammar> grammar_or_refusal(const json& schema) {
  std::shared_ptr<const TokenGrammar> grammar;
  const auto error = test::caught([&] { grammar = test::schema_grammar(schema.dump()); });
  if (error) {
    EXPECT_TRUE(error->code == ErrorCode::unsupported || error->code == ErrorCode::invalid_argument)
        << error->message;
  }
  return grammar;
}

TEST(GrammarRandomSchemas, HaveValidReplies) {
  RandomSchemas schemas(25);
  int accepted = 0, objects = 0;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const json schema = schemas.next();
    const auto grammar = grammar_or_refusal(schema);
    if (grammar == nullptr) continue;
    ++accepted;
    test::RandomWriter writer(test::byte_tokenizer(), i);
    const std::string text = writer.write(GrammarState(grammar), 30);
    const json value = json::parse(text, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << schema << "\n'" << text << "'";
    EXPECT_EQ(test::schema_mismatch(value, schema), "") << schema << "\n" << text;
    objects += value.is_structured() ? 1 : 0;
  }
  EXPECT_GT(accepted, 300);
  EXPECT_GT(objects, 100);
}

}  // namespace
}  // namespace clora
