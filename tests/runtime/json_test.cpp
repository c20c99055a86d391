#include "clora/runtime/files/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace clora {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_file);
    return error.what();
  }
  return "no error";
}

std::string parse_error_of(const std::string& text, const JsonLimits& limits = {}) {
  return error_of([&] { parse_json(text, "config.json", limits); });
}

TEST(Json, ReadsADocument) {
  EXPECT_EQ(parse_json(R"({"a": [1, "]\"["]})", "config.json"), (json{{"a", {1, "]\"["}}}));
}

TEST(Json, KeepsTheOrderOfKeysIfRequested) {
  const auto object = parse_json<nlohmann::ordered_json>(R"({"b": 1, "a": 2})", "config.json");
  EXPECT_EQ(object.begin().key(), "b");
}

TEST(Json, RefusesNestingBeyondTheLimitWithItsPlace) {
  EXPECT_NO_THROW(parse_json(std::string(64, '[') + std::string(64, ']'), "config.json"));
  EXPECT_THAT(parse_error_of(std::string(100000, '[')),
              AllOf(HasSubstr("config.json: line 1, column 65"), HasSubstr("at most 64 deep")));
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_THAT(parse_error_of(objects), HasSubstr("at most 64 deep"));
}

TEST(Json, RefusesADuplicateKeyIfRequested) {
  const std::string twice = R"({"a": [{"b": 1}, {"b": 1, "c": {"b": 2}, "b": 3}]})";
  EXPECT_EQ(parse_json(twice, "config.json")["a"][1]["b"], 3);
  EXPECT_THAT(parse_error_of(twice, {.unique_keys = true}),
              HasSubstr("config.json: the key \"b\" is duplicated"));
  EXPECT_NO_THROW(
      parse_json(R"([{"a": {"a": 1}}, {"a": 2}])", "config.json", {.unique_keys = true}));
}

TEST(Json, CountsNoBracketsInStrings) {
  const std::string text = "\"" + std::string(1000, '[') + "\"";
  EXPECT_NO_THROW(parse_json(text, "config.json"));
}

TEST(Json, RefusesLongDocumentsAndStrings) {
  EXPECT_THAT(parse_error_of("[1, 2, 3]", {.bytes = 8}), HasSubstr("at most 8 bytes, got 9"));
  EXPECT_THAT(parse_error_of("\"12345678\"", {.string_bytes = 9}),
              HasSubstr("a string must have at most 9 bytes, got 10"));
  EXPECT_THAT(parse_error_of("\"12345678", {.string_bytes = 8}), HasSubstr("at most 8 bytes"))
      << "also where the string never ends";
}

TEST(Json, ReportsWhereADocumentIsWrongInItsOwnWords) {
  const std::string error = parse_error_of("{\n  \"a\": nope\n}");
  EXPECT_THAT(error, AllOf(HasSubstr("config.json: line 2, column "), HasSubstr("not valid JSON"),
                           Not(HasSubstr("json.exception"))));
  EXPECT_THAT(parse_error_of("[1"), HasSubstr("unexpected end of text"));
  EXPECT_THAT(parse_error_of(""),
              HasSubstr("line 1, column 1: not valid JSON: unexpected end of text"));
  EXPECT_THAT(parse_error_of("[1e999]"), HasSubstr("a number is out of range"));
  EXPECT_THAT(parse_error_of("\xff"), HasSubstr("unexpected byte 0xff"));
}

TEST(Json, CountsLinesFromTheFirstOfALongerText) {
  const auto error_in_line_7 = [](const char* text) {
    return error_of([&] { parse_json(text, "train.jsonl", {}, 7); });
  };
  EXPECT_THAT(error_in_line_7("[1"), HasSubstr("train.jsonl: line 7, column 3: not valid JSON"));
  EXPECT_THAT(error_in_line_7("[\n1"), HasSubstr("train.jsonl: line 8, column 2: "));
  EXPECT_THAT(error_in_line_7("[1e999]"), HasSubstr("line 7: not valid JSON: a number is out of"));
}

TEST(Json, WritesAnyBytesWithoutThrowing) {
  std::string bytes;
  for (int byte = 1; byte < 256; ++byte) bytes += static_cast<char>(byte);
  const std::string text = json_text(json{{"a", bytes}});
  EXPECT_NO_THROW(parse_json(text, "written"));
  EXPECT_EQ(json_text(json(std::numeric_limits<double>::quiet_NaN())), "null");
}

TEST(Json, NamesTheKeyAndWhatItMustBe) {
  const json value = parse_json(
      R"({"n": 1.5, "t": 7, "big": 18446744073709551615, "o": {"f": "x"}, "l": ["a", 1], "z": null})",
      "config.json");
  const JsonKeys keys(value, "config.json");
  EXPECT_EQ(error_of([&] { keys.integer("n"); }),
            "config.json: n must be a 64-bit integer, got 1.5");
  EXPECT_THAT(error_of([&] { keys.integer("big"); }), HasSubstr("a 64-bit integer"));
  EXPECT_EQ(error_of([&] { keys.text("t"); }), "config.json: t must be a string, got 7");
  EXPECT_EQ(error_of([&] { keys.object("o").number("f"); }),
            "config.json: o.f must be a number, got \"x\"");
  EXPECT_EQ(error_of([&] { keys.find_texts("l"); }),
            "config.json: l must be an array of strings, got an array of length 2");
  EXPECT_EQ(error_of([&] { keys.text("missing"); }), "config.json: the key missing is missing");
  EXPECT_FALSE(keys.find_text("z").has_value()) << "null counts as absent";
  EXPECT_EQ(error_of([&] { JsonKeys(json(1), "config.json"); }),
            "config.json: the document must be an object, got 1");
}

TEST(Json, CutsLongValuesInMessages) {
  EXPECT_EQ(json_excerpt(json(std::string(100, 'a')), 10), "\"aaaaaaaaa...");
}

}  // namespace
}  // namespace clora
