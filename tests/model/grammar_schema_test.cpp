// JSON Schema as grammars: which texts each keyword admits, and what is refused.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/grammar_texts.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::accepts;
using test::schema_grammar;

struct SchemaCase {
  const char* schema;
  std::vector<const char*> accepted;
  std::vector<const char*> refused;
};

void expect_texts(const std::vector<SchemaCase>& cases) {
  for (const SchemaCase& each : cases) {
    const auto grammar = schema_grammar(each.schema);
    for (const char* text : each.accepted)
      EXPECT_TRUE(accepts(grammar, text)) << each.schema << "\n" << text;
    for (const char* text : each.refused)
      EXPECT_FALSE(accepts(grammar, text)) << each.schema << "\n" << text;
  }
}

TEST(GrammarSchema, AdmitsValuesOfTheType) {
  expect_texts({
      {R"({"type":"null"})", {"null"}, {"nul", "true", "nulll", " null", "null "}},
      {R"({"type":"boolean"})", {"true", "false"}, {"True", "1", "\"true\""}},
      {R"({"type":"integer"})",
       {"0", "-7", "12", "9223372036854775807", "-9223372036854775807"},
       {"", "-", "-0", "01", "1.0", "1e2", "+1", "9223372036854775808", "10000000000000000000"}},
      {R"({"type":"number"})",
       {"0", "-0", "-0.5", "1.25", "1e5", "1E-07", "12.5e+99", "12345678901234567890"},
       {"01", ".5", "1.", "1e", "1e+", "--1", "1e100", "NaN", "Infinity", "123456789012345678901"}},
      {R"({"type":"string"})",
       {R"("")", R"("a b")", R"("\"\\\/\b\f\n\r\t")", R"("\u00e9")", R"("\ud83D\uDe00")", "\"é€😀\"",
        "\"\x7F\""},
       {R"(")", R"("\x")", R"("\u12")", R"("\ud83d")", R"("\ud83dx")", R"("\ud83d\u0041")",
        R"("\ud83d\uac00")", R"("\ude00")", "\"\n\"", "\"\t\"", R"('a')", "\"\xFF\"", "\"\xC3\"",
        "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"", R"("a""b")"}},
      {R"({"type":["string","null"]})", {R"("a")", "null"}, {"1", "true"}},
      {R"({"type":"array"})",
       {"[]", "[1, \"a\", [], {}]", "[[[null]]]"},
       {"[", "[1,]", "[,]", "{}"}},
      {R"({"type":"object"})",
       {"{}", R"({"a":1})", R"({"a": {"b": []}, "c": 2.5})"},
       {"{", R"({a:1})", R"({"a"})", R"({"a":1,})", "[]"}},
      {"{}", {"1", "null", "\"a\"", "[{}]", "{\"a\": [true]}"}, {"", "a", "[", "1 "}},
      {"true", {"1", "[]"}, {""}},
  });
}

TEST(GrammarSchema, AdmitsBoundedWhiteSpace) {
  expect_texts({
      {R"({"type":"array","items":{"type":"integer"}})",
       {"[1,2]", "[1, 2]", "[ 1, 2 ]", "[\n  1,\n  2\n]", "[\n\t1,\n\t2\n]", "[ ]", "[\n]"},
       {"[1 ,2]", "[  1]", "[1,  2]", "[\n\n1]", "[\r\n1]", "[1]\n", "\n[1]", "[1,\n \t2]"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"}}})",
       {R"({"a":1})", R"({"a": 1})", "{\n    \"a\": 1\n}", R"({ "a": 1 })"},
       {R"({"a" :1})", R"({"a":  1})", "{\"a\":\n1}"}},
  });
  const auto grammar = schema_grammar(R"({"type":"array"})");
  EXPECT_TRUE(accepts(grammar, "[\n" + std::string(64, ' ') + "1]"));
  EXPECT_FALSE(accepts(grammar, "[\n" + std::string(65, ' ') + "1]"));
}

TEST(GrammarSchema, AdmitsPropertiesInTheirOrder) {
  constexpr const char* kTwo =
      R"({"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"integer"},)"
      R"("ab":{"type":"null"}},"required":["a"]})";
  expect_texts({
      {kTwo,
       {R"({"b":1,"a":2,"ab":null})", R"({"a":2})", R"({"b":1, "a":2})", R"({"a":2,"ab":null})"},
       {R"({"a":2,"b":1})", R"({"b":1})", "{}", R"({"a":2,})", R"({"a":2,"c":1})", R"({"a":"x"})",
        R"({"a":2,"a":2})", R"({"a":2,"ab":1})"}},
      {R"({"properties":{"a":{"type":"integer"},"b":{"type":"integer"}}})",
       {"{}", R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"},
       {R"({"b":1,"a":1})", R"({"c":1})", "1"}},
      {R"({"properties":{"a":{},"b":{}},"minProperties":1})", {R"({"b":1})"}, {"{}"}},
      {R"({"properties":{"\"\\\u0001é":{"type":"null"}},"required":["\"\\\u0001é"]})",
       {R"({"\"\\\u0001é":null})"},
       {"{}"}},
      {R"({"properties":{"a":false,"b":{}}})", {"{}", R"({"b":1})"}, {R"({"a":1})"}},
  });
}

TEST(GrammarSchema, AdmitsAdditionalProperties) {
  expect_texts({
      {R"({"type":"object","additionalProperties":{"type":"integer"}})",
       {"{}", R"({"x":1})", R"({"x":1,"":2})"},
       {R"({"x":"y"})", R"({"x":1,})"}},
      {R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"x":1})"}},
      {R"({"additionalProperties":{"type":"null"},"minProperties":1,"maxProperties":2})",
       {R"({"a":null})", R"({"a":null,"b":null})"},
       {"{}", R"({"a":null,"b":null,"c":null})"}},
      {R"({"properties":{"ab":{"type":"integer"},"é":{"type":"integer"}},)"
       R"("additionalProperties":{"type":"null"}})",
       {"{}", R"({"ab":1})", R"({"ab":1,"x":null})", R"({"a":null,"abc":null,"":null})",
        R"({"ac":null,"éa":null,"è":null,"\n":null})", R"({"x\u0041":null})"},
       {R"({"ab":null})", R"({"é":null})", R"({"x":1})", R"({"x":null,"ab":1})",
        R"({"\u0061b":null})"}},
      {R"({"required":["a"],"additionalProperties":{"type":"integer"}})",
       {R"({"a":1})", R"({"a":1,"b":2})"},
       {"{}", R"({"b":1})"}},
      {R"({"type":"object","required":["a"]})", {R"({"a":[1]})", R"({"a":1,"b":2})"}, {"{}"}},
  });
}

TEST(GrammarSchema, AdmitsItems) {
  expect_texts({
      {R"({"items":{"type":"integer"},"minItems":2,"maxItems":3})",
       {"[1,2]", "[1,2,3]"},
       {"[]", "[1]", "[1,2,3,4]", "[1,]", R"([1,"a"])"}},
      {R"({"items":{"type":"integer"},"minItems":1})", {"[1]", "[1,2,3,4,5,6]"}, {"[]"}},
      {R"({"type":"array","maxItems":0})", {"[]", "[ ]"}, {"[1]"}},
      {R"({"items":false})", {"[]"}, {"[1]"}},
      {R"({"prefixItems":[{"type":"integer"},{"type":"null"}]})",
       {"[]", "[1]", "[1,null]"},
       {"[null]", "[1,null,1]"}},
      {R"({"prefixItems":[{"type":"integer"},{"type":"null"}],"minItems":2,"items":false})",
       {"[1,null]"},
       {"[]", "[1]"}},
      {R"({"prefixItems":[{"type":"integer"}],"items":{"type":"null"}})",
       {"[]", "[1]", "[1,null,null]"},
       {"[null]", "[1,1]"}},
  });
}

TEST(GrammarSchema, AdmitsValuesOfAnEnum) {
  expect_texts({
      {R"({"enum":["red","redder","re",1,12,null,[1,"a"],{"k":true}]})",
       {R"("red")", R"("redder")", R"("re")", "1", "12", "null", R"([1, "a"])", R"({"k": true})",
        R"([1,"a"])"},
       {R"("redd")", R"("r")", "2", R"([1])", "{}", R"({"k":false})"}},
      {R"({"const":"a\"b\\\nü"})", {R"("a\"b\\\nü")"}, {R"("a")"}},
      {R"({"type":"string","enum":["1",1]})", {R"("1")"}, {"1"}},
      {R"({"type":"integer","enum":[1,1.5,2.0]})", {"1", "2.0"}, {"1.5"}},
      {R"({"const":{}})", {"{}"}, {"[]"}},
  });
}

TEST(GrammarSchema, CombinesSchemas) {
  expect_texts({
      {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":2}]})",
       {"1", R"("ab")"},
       {R"("abc")", "null"}},
      {R"({"oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"integer"}},"required":)"
       R"(["kind","x"]},{"properties":{"kind":{"const":"ab"},"y":{"type":"null"}},"required":)"
       R"(["kind","y"]}]})",
       {R"({"kind": "a", "x": 1})", R"({"kind":"ab","y":null})"},
       {R"({"kind":"a","y":null})", R"({"kind":"ab","x":1})"}},
      {R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},)"
       R"({"properties":{"b":{"type":"null"},"a":{"minimum":5}}}]})",
       {R"({"a":5})", R"({"a":12,"b":null})"},
       {"{}", R"({"a":4})", R"({"b":null})"}},
      {R"({"type":"object","properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]})",
       {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"},
       {"{}"}},
      {R"({"allOf":[{"type":["integer","string"]},{"type":"number"}],"maximum":3})",
       {"3", "-12"},
       {"4", "2.5", R"("a")"}},
      {R"({"allOf":[{"enum":[1,2,3]},{"enum":[3,4,1]}]})", {"1", "3"}, {"2", "4"}},
      {R"({"$ref":"#/$defs/n","minimum":3,"$defs":{"n":{"type":"integer","maximum":5}}})",
       {"3", "5"},
       {"2", "6"}},
  });
}

TEST(GrammarSchema, FollowsReferences) {
  constexpr const char* kTree =
      R"({"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"object","properties":{"v":{"type":)"
      R"("integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/a~1b"}}},"required":["v"]}}})";
  constexpr const char* kList =
      R"({"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},)"
      R"("required":["next"]})";
  expect_texts({
      {kTree,
       {R"({"v":1})", R"({"v":1,"kids":[{"v":2,"kids":[{"v":3}]},{"v":4}]})"},
       {R"({"v":1,"kids":[{}]})", R"({"v":1,"kids":[{"v":2}})", "{}"}},
      {kList,
       {R"({"next":null})", R"({"next":{"next":{"next":null}}})"},
       {R"({"next":{}})", R"({"next":{"next":null})"}},
      {R"({"definitions":{"x":{"const":1}},"items":{"$ref":"#/definitions/x"}})",
       {"[1,1]"},
       {"[2]"}},
  });
}

TEST(GrammarSchema, CountsTheCharactersOfStrings) {
  expect_texts({
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("abc")", R"("é€")", R"("\n\u0041\ud83d\ude00")", "\"😀😀😀\""},
       {R"("")", R"("a")", R"("abcd")", "\"😀\"", R"("\n\n\n\n")"}},
      {R"({"type":"string","minLength":1})", {R"("a")"}, {R"("")"}},
      {R"({"type":"string","maxLength":0})", {R"("")"}, {R"("a")"}},
  });
}

TEST(GrammarSchema, MatchesPatterns) {
  expect_texts({
      {R"({"pattern":"^[a-c]{2,3}$"})",
       {R"("ab")", R"("abc")"},
       {R"("a")", R"("abca")", R"("ad")"}},
      {R"({"pattern":"b+"})", {R"("b")", R"("xbby")"}, {R"("")", R"("xy")"}},
      {R"({"pattern":"^a|b$"})", {R"("ax")", R"("xb")"}, {R"("xa")", R"("bx")"}},
      {R"({"pattern":"^(foo|ba[rz])?\\d*$"})",
       {R"("")", R"("foo12")", R"("baz")"},
       {R"("fo")", R"("bar1x")"}},
      {R"({"pattern":"^\"\\\\\\n$"})", {R"("\"\\\n")"}, {R"("")"}},
      {R"({"pattern":"^.$"})",
       {R"("a")", R"("€")", R"("\"")", R"("\t")"},
       {R"("\n")", R"("ab")", R"("")"}},
      {R"({"pattern":"^[^a-z]\\w\\s\\D$"})",
       {R"("A_ x")"},
       {R"("a_ x")", R"("A- x")", R"("A_ 1")"}},
      {R"({"pattern":"^\\u00e9\\x41\\u{1F600}[\\u4e00-\\u9fff]+?$"})",
       {R"("éA😀中文")"},
       {R"("éA😀a")"}},
      {R"({"pattern":"^(?:a{0}b{2,})$"})", {R"("bb")", R"("bbbbb")"}, {R"("b")", R"("abb")"}},
      {R"({"pattern":"^[\\]x-]$"})", {R"("]")", R"("-")"}, {R"("\")"}},
      {R"({"pattern":""})", {R"("")", R"("a")"}, {"1"}},
  });
}

TEST(GrammarSchema, KnowsFormats) {
  expect_texts({
      {R"({"format":"date"})",
       {R"("2024-02-29")", R"("2000-02-29")", R"("1999-12-31")", R"("2023-04-30")"},
       {R"("2023-02-29")", R"("1900-02-29")", R"("2023-04-31")", R"("2023-13-01")",
        R"("2023-1-01")", R"("2023-00-10")", R"("2023-01-00")"}},
      {R"({"format":"time"})",
       {R"("23:59:59Z")", R"("00:00:00.123+05:30")"},
       {R"("24:00:00Z")", R"("12:60:00Z")", R"("12:00:00")"}},
      {R"({"format":"date-time"})", {R"("2024-02-29T12:30:00Z")"}, {R"("2024-02-29 12:30:00Z")"}},
      {R"({"format":"duration"})",
       {R"("P3Y6M4D")", R"("PT12H30M5S")", R"("P2W")", R"("P1DT1H")"},
       {R"("P")", R"("PT")", R"("P1Y1D")", R"("P1H")"}},
      {R"({"format":"uuid"})",
       {R"("123e4567-E89B-12d3-a456-426614174000")"},
       {R"("123e4567-e89b-12d3-a456-42661417400")", R"("123e4567e89b12d3a456426614174000")"}},
      {R"({"format":"email"})",
       {R"("a.b+c@example.com")"},
       {R"("a@")", R"("@b.c")", R"(".a@b.c")"}},
      {R"({"format":"ipv4"})",
       {R"("255.0.10.199")"},
       {R"("256.0.0.1")", R"("1.2.3")", R"("01.2.3.4")"}},
      {R"({"format":"hostname"})", {R"("a-b.example")"}, {R"("-a")", R"("a-")", R"("a..b")"}},
      {R"({"format":"uri"})",
       {R"("https://example.com/a%20b?q=1#x")", R"("http://h:80")"},
       {R"("ftp://a")", R"("https://")", R"("https://a b")"}},
  });
}

TEST(GrammarSchema, RefusesWhatItDoesNotSupportByName) {
  const auto refused = [](const char* schema, const char* part) {
    CLORA_EXPECT_ERROR(schema_grammar(schema), ErrorCode::unsupported, part);
  };
  refused(R"({"not":{}})", "#: the keyword \"not\" is not supported");
  refused(R"({"properties":{"a/b":{"items":{"if":{}}}}})",
          "#/properties/a~1b/items: the keyword \"if\"");
  refused(R"({"$defs":{"x":{"dependentRequired":{}}}})", "#/$defs/x");
  refused(R"({"anyOf":[{"contains":{}}]})", "#/anyOf/0: the keyword \"contains\"");
  refused(R"({"multipleOf":2})", "multipleOf");
  refused(R"({"uniqueItems":true})", "uniqueItems");
  refused(R"({"patternProperties":{}})", "patternProperties");
  refused(R"({"nullable":true})", "nullable");
  refused(R"({"format":"regex"})", "format must be one of date, time,");
  refused(R"({"pattern":"a","maxLength":3})", "cannot be combined");
  refused(R"({"enum":["a"],"minLength":3})", "enum and const cannot be combined with minLength");
  refused(R"x({"pattern":"(?=a)"})x", "lookaround");
  refused(R"({"pattern":"(a)\\1"})", "references to groups");
  refused(R"({"pattern":"a\\b"})", "\\b");
  refused(R"({"pattern":"a^"})", "^ after the beginning");
  refused(R"x({"pattern":"(a$)"})x", "$ inside");
  refused(R"({"pattern":"\\p{L}"})", "\\p");
  refused(R"({"$ref":"http://example.com/x"})", "$ref must be # or begin with #/");
  refused(R"({"$ref":"#anchor"})", "$ref must be # or begin with #/");
  refused(R"({"properties":{"a":{}},"required":["b"]})", "\"b\"");
  refused(R"({"properties":{"a":{}},"minProperties":2})", "minProperties");
  refused(R"({"properties":{"a":{},"b":{}},"maxProperties":1})", "maxProperties");
  refused(R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})", "two different values of pattern");
  refused(
      R"({"allOf":[{"properties":{"a":{}},"additionalProperties":false},{"properties":{"b":{}}}]})",
      "additionalProperties must be true or absent");
  refused(R"({"type":"number","minimum":1e30})", "at most 18 digits");
}

TEST(GrammarSchema, RefusesWhatIsNoSchema) {
  const auto refused = [](const char* schema, const char* part) {
    CLORA_EXPECT_ERROR(schema_grammar(schema), ErrorCode::invalid_argument, part);
  };
  refused("", "not valid JSON");
  refused("{", "not valid JSON");
  refused("[]", "a schema must be an object, true or false");
  refused(R"({"type":"text"})", "#/type: type must be one of object,");
  refused(R"({"type":[]})", "type must be");
  refused(R"({"type":"string","type":"null"})", "duplicated");
  refused(R"({"properties":[]})", "properties must be an object of schemas");
  refused(R"({"properties":{"a":1}})", "#/properties/a: a schema must be");
  refused(R"({"required":"a"})", "required must be a list of texts");
  refused(R"({"enum":[]})", "enum must be a list of values");
  refused(R"({"minItems":-1})", "minItems must be an integer that is not negative");
  refused(R"({"minLength":1.5})", "minLength must be");
  refused(R"({"minimum":"1"})", "minimum must be a number");
  refused(R"({"anyOf":[]})", "anyOf must be");
  refused(R"({"items":[{}]})", "a schema must be an object");
  refused(R"({"$ref":"#/$defs/x"})", "names none");
  refused(R"({"$ref":"#/required","required":["a"]})", "names none");
  refused(R"({"pattern":"("})", "')' is expected");
  refused(R"x({"pattern":"a)"})x", "')' is not expected");
  refused(R"({"pattern":"[z-a]"})", "must go upwards");
  refused(R"({"pattern":"a{3,2}"})", "must not decrease");
  refused(R"({"pattern":"*"})", "must be escaped");
  refused(R"({"pattern":"a**"})", "quantifier");
}

TEST(GrammarSchema, RefusesSchemasThatNoValueMatches) {
  for (const char* schema :
       {"false", R"({"type":"string","minLength":3,"maxLength":2})",
        R"({"type":"integer","minimum":3,"maximum":2})", R"({"type":"string","enum":[1]})",
        R"({"allOf":[{"type":"string"},{"type":"null"}]})",
        R"({"type":"number","exclusiveMinimum":1,"exclusiveMaximum":1})", R"({"pattern":"^[]$"})",
        R"({"items":false,"minItems":1})", R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})",
        R"({"items":{"$ref":"#"},"minItems":1})"}) {
    CLORA_EXPECT_ERROR(schema_grammar(schema), ErrorCode::unsupported, "no text does");
  }
  for (const char* schema : {R"({"$ref":"#"})", R"({"allOf":[{"$ref":"#"}]})",
                             R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})",
                             R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},)"
                             R"("b":{"$ref":"#/$defs/a"}}})"}) {
    CLORA_EXPECT_ERROR(schema_grammar(schema), ErrorCode::unsupported,
                       "must not begin with itself");
  }
}

}  // namespace
}  // namespace clora
