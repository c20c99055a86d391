// Ids of Hugging Face's tokenizers for many random texts. ctest creates the texts before, as the
// test random_texts (tests/reference/random_texts.py).
#include <gtest/gtest.h>

#include "tests/support/pre_tokenizer_cases.hpp"
#include "tests/support/program.hpp"
#include "tests/support/tokenizer_cases.hpp"

namespace clora {
namespace {

std::filesystem::path random_texts(const char* name) {
  return test::built_program("tests/random_texts") / name;
}

TEST(TokenizerRandomTexts, HaveTheirAddedTokensFoundAsHuggingFaceFindsThem) {
  test::expect_tokenizers(random_texts("added.json"));
}

TEST(TokenizerRandomTexts, AreSplitByEveryPreTokeniserAsByHuggingFaces) {
  EXPECT_GE(test::expect_pre_tokenizers(random_texts("pre_tokenizers.json")).size(), 20U);
}

TEST(TokenizerRandomTexts, HaveTheIdsAndTheTextsOfEncoders) {
  test::expect_encoders(nlohmann::json::parse(test::read_file(random_texts("word_pieces.json"))));
}

TEST(TokenizerRandomTexts, HaveTheIdsOfEachTokenizerOfTheTestData) {
  const auto index = nlohmann::json::parse(test::read_file(random_texts("index.json")));
  EXPECT_GE(index.size(), 3u);
  for (const nlohmann::json& each : index) {
    const std::string path = each.at("tokenizer");
    test::expect_cases(tokenizer_from_json(test::read_file(path)), each.at("cases"), path);
  }
}

}  // namespace
}  // namespace clora
