// Grammars in GBNF.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/grammar_texts.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using test::accepts;

std::shared_ptr<const TokenGrammar> gbnf(std::string_view text) {
  return TokenGrammar::from_gbnf(text, test::byte_vocabulary());
}

struct GbnfCase {
  const char* grammar;
  std::vector<const char*> accepted, refused;
};

TEST(GrammarGbnf, ReadsTheNotationOfLlamaCpp) {
  const GbnfCase kCases[] = {
      {"root ::= \"yes\" | \"no\"", {"yes", "no"}, {"", "y", "yesno", "maybe"}},
      {"root ::= [a-c]+ [^a-c\\n] .", {"abx€", "c\"\n"}, {"x", "ab\nx", "abx"}},
      {"# a list\nroot ::= item (\", \" item)* # of items\nitem ::= [0-9]{1,3} \"%\"?\n",
       {"1", "12%, 345"},
       {"", "1234", "1,2", "1, "}},
      {"root ::= (\n  \"a\" |\n  \"b\"\n)\n\nother ::= \"c\"", {"a", "b"}, {"c"}},
      {"root ::=\n  a-1 |\n  \"\"\na-1 ::= \"x\" a-1?", {"", "x", "xxx"}, {"y"}},
      {"root ::= \"\\\"\\\\\\n\\t\\x41\\u00e9\\U0001F600\"", {"\"\\\n\tA\u00e9\U0001F600"}, {""}},
      {"root ::= [\\]\\-x-z\\[]{2}", {"]-", "yz", "[]"}, {"a]", "]"}},
      {"root ::= \"a\"{2} \"b\"{2,} \"c\"{0,1} [d]{3,3}",
       {"aabbcddd", "aabbbddd"},
       {"abddd", "aabccddd"}},
      {"root ::= \"(\" root? \")\"", {"()", "((()))"}, {"(", "(()", "())"}},
      {"root ::= [a-]", {"a", "-"}, {"b"}},
      {"root ::= expr\nexpr ::= term ((\"+\" | \"-\") term)*\nterm ::= [0-9]+ | \"(\" expr \")\"",
       {"1+2-(3+(4))", "12"},
       {"1+", "(1", "+1"}},
  };
  for (const GbnfCase& each : kCases) {
    const auto grammar = gbnf(each.grammar);
    for (const char* text : each.accepted)
      EXPECT_TRUE(accepts(grammar, text)) << each.grammar << "\n" << text;
    for (const char* text : each.refused)
      EXPECT_FALSE(accepts(grammar, text)) << each.grammar << "\n" << text;
  }
}

TEST(GrammarGbnf, WritesValidUtf8Only) {
  const auto grammar = gbnf("root ::= [^x]*");
  EXPECT_TRUE(accepts(grammar, "é€😀\n"));
  EXPECT_FALSE(accepts(grammar, "\xFF"));
  EXPECT_FALSE(accepts(grammar, "\xED\xA0\x80"));
  EXPECT_FALSE(accepts(grammar, "\xC3"));
}

TEST(GrammarGbnf, NamesTheLineOfAnError) {
  const auto refused = [](const char* text, const char* part) {
    CLORA_EXPECT_ERROR(gbnf(text), ErrorCode::invalid_argument, part);
  };
  refused("", "the rule 'root' is used, but not defined");
  refused("a ::= \"b\"", "'root'");
  refused("root ::= b", "the rule 'b' is used, but not defined");
  refused("root ::= \"a\"\nroot ::= \"b\"", "line 2: the rule 'root' is defined twice");
  refused("root ::= \"a\n\"", "line 1: the end of a text");
  refused("root ::= [a-\n", "line 1: the end of a text");
  refused("\nroot = \"a\"", "line 2: '::=' is expected");
  refused("root ::= (\"a\"", "')' is expected");
  refused("root ::= \"a\" ) ", "the end of the rule is expected");
  refused("root ::= [z-a]", "must go upwards");
  refused("root ::= \"\\q\"", "an escape must be one of");
  refused("root ::= \"\\ud800\"", "U+D800 is no character");
  refused("root ::= \"\\x4\"", "2 hexadecimal digits");
  refused("root ::= \"a\"{3,2}", "must not decrease");
  refused("root ::= \"a\"{x}", "a count is expected");
  refused("root ::= \"\xFF\"", "valid UTF-8");
}

TEST(GrammarGbnf, RefusesLeftRecursionAndEndlessTexts) {
  for (const char* text : {"root ::= root \"a\" | \"b\"",
                           "root ::= a\na ::= b \"x\"\nb ::= \"y\"? a", "root ::= \"\"* root"}) {
    CLORA_EXPECT_ERROR(gbnf(text), ErrorCode::unsupported, "must not begin with itself");
  }
  for (const char* text :
       {"root ::= \"a\" root", "root ::= \"(\" a \")\"\na ::= \"[\" root \"]\"", "root ::= []"}) {
    CLORA_EXPECT_ERROR(gbnf(text), ErrorCode::unsupported, "no text does");
  }
}

}  // namespace
}  // namespace clora
