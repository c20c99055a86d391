// Schemas and grammars of bad will: each ends soon, in a grammar or in an error.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>

#include "tests/support/grammar_texts.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::schema_grammar;

std::string repeated(std::string_view text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

void expect_limit(const std::string& schema, std::string_view part) {
  const auto begin = std::chrono::steady_clock::now();
  const auto error = test::caught([&] { (void)schema_grammar(schema); });
  ASSERT_TRUE(error.has_value()) << schema.substr(0, 200);
  EXPECT_EQ(error->code, ErrorCode::invalid_argument) << error->message;
  EXPECT_NE(error->message.find(part), std::string::npos) << error->message;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(GrammarLimits, BoundTheSizeOfASchema) {
  expect_limit("{\"title\":\"" + std::string(300'000, 'x') + "\"}", "bytes");
  expect_limit(repeated("{\"items\":", 200) + "{}" + repeated("}", 200), "100 deep");
  std::string keys = R"({"properties":{)";
  for (int i = 0; i < 5000; ++i) keys += "\"k" + std::to_string(i) + "\":{},";
  expect_limit(keys + R"("last":{}}})", "keys");
}

TEST(GrammarLimits, BoundTheStatesOfAGrammar) {
  expect_limit(R"({"type":"string","maxLength":500000})", "states");
  expect_limit(R"({"type":"array","maxItems":300000})", "states");
  expect_limit(R"({"pattern":"((((((a{9}){9}){9}){9}){9}){9}){9}"})", "states");
  expect_limit(R"({"pattern":"^((a{0,1000}){0,1000}){0,1000}$"})", "states");
}

TEST(GrammarLimits, BoundPatternsWhoseAutomataGrowExponentially) {
  expect_limit(R"({"pattern":"(a|b)*a(a|b){24}$"})", "states");
}

TEST(GrammarLimits, BoundWhatCombinedSchemasCopy) {
  std::string product = R"({"allOf":[)";
  for (int i = 0; i < 12; ++i) {
    const std::string n = std::to_string(i);
    product +=
        R"({"anyOf":[{"properties":{"a)" + n + R"(":{}}},{"properties":{"b)" + n + R"(":{}}}]},)";
  }
  expect_limit(product + "{}]}", "alternatives");
  expect_limit(R"({"$defs":{"a":{"properties":{"x":{"allOf":[{"$ref":"#/$defs/a"},)"
               R"({"properties":{"x":{"$ref":"#/$defs/a"}}}]}}}},"$ref":"#/$defs/a"})",
               "must");
  expect_limit(R"({"$ref":"#","minLength":1})", "a $ref may lead to itself");
  expect_limit(R"({"$ref":"#/$defs/a","maxLength":1,"$defs":{"a":{"$ref":"#/$defs/b"},)"
               R"("b":{"$ref":"#/$defs/a"}}})",
               "a $ref may lead to itself");
}

TEST(GrammarLimits, BoundDeepPatterns) {
  expect_limit("{\"pattern\":\"" + repeated("(", 5000) + "a" + repeated(")", 5000) + "\"}",
               "groups must nest");
  EXPECT_NE(test::caught([] {
              (void)TokenGrammar::from_gbnf(
                  "root ::= " + repeated("(", 5000) + "\"a\"" + repeated(")", 5000),
                  test::byte_vocabulary());
            }),
            std::nullopt);
}

TEST(GrammarLimits, BoundTheReadingsOfAText) {
  // After n letters, each of 300 rules may have begun.
  std::string text = "root ::= ";
  for (int i = 0; i < 300; ++i) text += "r" + std::to_string(i) + " | ";
  text += "\"x\"\n";
  for (int i = 0; i < 300; ++i)
    text += "r" + std::to_string(i) + " ::= \"a\"* \"" + std::to_string(i) + "\"\n";
  const auto grammar = TokenGrammar::from_gbnf(text, test::byte_vocabulary());
  const auto error = test::caught([&] {
    GrammarState state(grammar);
    state.accept('a');
  });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, ErrorCode::unsupported);
  EXPECT_NE(error->message.find("at most 256 readings"), std::string::npos) << error->message;
}

TEST(GrammarLimits, TakeLargeSchemasThatAreWithinThem) {
  std::string values = R"({"enum":["value 0")";
  for (int i = 1; i < 5000; ++i) values += ",\"value " + std::to_string(i) + "\"";
  const auto grammar = schema_grammar(values + "]}");
  EXPECT_TRUE(test::accepts(grammar, "\"value 4999\""));
  EXPECT_FALSE(test::accepts(grammar, "\"value 5000\""));
  std::string keys = R"({"additionalProperties":{"type":"null"},"properties":{"k":{"type":"null"})";
  for (int i = 0; i < 150; ++i) keys += ",\"key" + std::to_string(i) + R"(":{"type":"integer"})";
  const auto object = schema_grammar(keys + "}}");
  EXPECT_TRUE(test::accepts(object, R"({"k":null,"key7":1,"key149":2,"key150":null})"));
  EXPECT_FALSE(test::accepts(object, R"({"key7":1,"key6":2})"));
  std::string merged = R"({"allOf":[{"type":"object"})";
  for (int i = 1; i < 150; ++i)
    merged += R"(,{"properties":{"x":{"minimum":)" + std::to_string(i) + "}}}";
  const auto number = schema_grammar(merged + "]}");
  EXPECT_TRUE(test::accepts(number, R"({"x":149})"));
  EXPECT_FALSE(test::accepts(number, R"({"x":148})"));
  EXPECT_TRUE(test::accepts(schema_grammar(R"({"type":"string","maxLength":20000})"),
                            "\"" + std::string(20000, 'x') + "\""));
}

}  // namespace
}  // namespace clora
