// Ids of Hugging Face's tokenizers for a few random texts (tests/reference/added_tokens.py).
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "tests/support/tokenizer_cases.hpp"

namespace clora {
namespace {

std::filesystem::path references() {
  const char* source = std::getenv("CLORA_SOURCE_DIR");
  if (source == nullptr) throw std::runtime_error("CLORA_SOURCE_DIR is not set; run by ctest");
  return std::filesystem::path(source) / "tests/reference";
}

TEST(TokenizerVectors, AddedTokensAreFoundAsHuggingFaceFindsThem) {
  test::expect_tokenizers(references() / "added_tokens.json");
}

// random_texts_NAME.json contains the cases of the tokenizer at the path in the test data.
void expect_random(const std::string& name, const char* tokenizer) {
  CLORA_REQUIRE_TEST_DATA(path, tokenizer);
  const auto cases = references() / ("random_texts_" + name + ".json");
  test::expect_cases(tokenizer_from_json(test::read_file(path)),
                     nlohmann::json::parse(test::read_file(cases)), name);
}

TEST(TokenizerVectors, RandomTextsOfGpt2) {
  expect_random("gpt2", "tokenizers/gpt2/tokenizer.json");
}

TEST(TokenizerVectors, RandomTextsOfQwen25) {
  expect_random("qwen2.5", "tokenizers/qwen2.5/tokenizer.json");
}

TEST(TokenizerVectors, RandomTextsOfTinyStories) {
  expect_random("tinystories", "models/tinystories-656k/tokenizer.json");
}

}  // namespace
}  // namespace clora
