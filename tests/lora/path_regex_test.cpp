// PathRegex (lora/path_regex.hpp): matching as in Python, and the patterns that it refuses.
#include "lora/path_regex.hpp"

#include <gtest/gtest.h>

#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using Anchor = PathRegex::Anchor;

bool matches(const std::string& pattern, std::string_view path, Anchor anchor = Anchor::start) {
  RegexBudget budget;
  return PathRegex(pattern, anchor, "here").matches(path, budget);
}

TEST(PathRegex, AnchorsAtTheStartOrAtBothEnds) {
  EXPECT_TRUE(matches("model", "model.layers"));
  EXPECT_FALSE(matches("layers", "model.layers"));
  EXPECT_FALSE(matches("model", "model.layers", Anchor::full));
  EXPECT_TRUE(matches(R"(.*\.layers)", "model.layers", Anchor::full));
  EXPECT_TRUE(matches("a|ab", "ab", Anchor::full));  // backtracks to the second alternative
}

TEST(PathRegex, GivesANamedGroup) {
  RegexBudget budget;
  const PathRegex regex(R"(.*?\.[^.]*\.(?P<idx>\d+)\.)", Anchor::start, "here");
  EXPECT_EQ(regex.group("model.layers.12.mlp.up_proj", "idx", budget), "12");
  EXPECT_EQ(regex.group("model.norm", "idx", budget), std::nullopt);
}

TEST(PathRegex, TakesWhatPythonAndPcre2ReadAlike) {
  for (const char* pattern : {R"(.*\.(0|1|2)\..*)", "[]a]+", "[^]a]+", "(?:q|v)_proj",
                              "(?P<n>a)(?P=n)", "(a)\\1", "a{2,}", "(?<=a)b", "(?<!a)b", "(?=a)a",
                              "(?!b)a", R"(\x61\.\-\\\d\D\w\W\s\S\b\B)", "^a$", "a++", "a*?"})
    EXPECT_NO_THROW(PathRegex(pattern, Anchor::start, "here")) << pattern;
}

TEST(PathRegex, RefusesWhatPythonReadsInAnotherWay) {
  for (const char* pattern :
       {"\\Ka", "\\Qa.b\\E", "\\R", "\\h", "\\X", "\\p{L}", "\\12", "\\x{61}", "\\x6", "(*UTF)a",
        "(?R)", "(?i)a", "(?|a|b)", "(?<n>a)", "(?#a)b", "[[:alpha:]]", "a{,3}", "\xc3\xa9", "a\\"})
    CLORA_EXPECT_ERROR(PathRegex(pattern, Anchor::start, "here"), ErrorCode::unsupported,
                       "here: the regular expression");
}

TEST(PathRegex, NamesAnInvalidExpression) {
  CLORA_EXPECT_ERROR(PathRegex("(a", Anchor::start, "file: key"), ErrorCode::invalid_file,
                     "file: key: '(a' is not a valid regular expression");
  CLORA_EXPECT_ERROR(PathRegex(std::string(5000, 'a'), Anchor::start, "here"),
                     ErrorCode::invalid_file, "at most 4096 bytes, got 5000");
}

TEST(PathRegex, EndsAnExpressionThatBacktracksWithoutEnd) {
  RegexBudget budget;
  const PathRegex regex("(x+x+)+y$", Anchor::start, "here");
  CLORA_EXPECT_ERROR(regex.matches(std::string(60, 'x') + "yz", budget), ErrorCode::invalid_file,
                     "takes too long");
}

TEST(PathRegex, CountsTheStepsOfAllExpressionsTogether) {
  RegexBudget budget{.steps = 100};
  const PathRegex regex(".*b$", Anchor::start, "here");
  EXPECT_FALSE(regex.matches("aaba", budget));
  EXPECT_LT(budget.steps, 100);
  const auto many = [&] {
    for (int i = 0; i < 100; ++i) (void)regex.matches("aaba", budget);
    return true;
  };
  CLORA_EXPECT_ERROR(many(), ErrorCode::invalid_file, "takes too long");
}

}  // namespace
}  // namespace clora
