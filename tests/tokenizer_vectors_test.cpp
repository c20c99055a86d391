// Ids of Hugging Face's tokenizers for random texts (tests/reference/added_tokens.py).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "clora/model/text/tokenizer_files.hpp"
#include "model/text/tokenizer_json.hpp"
#include "model/text/tokenizer_json_writing.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora {
namespace {

using Ids = std::vector<std::int32_t>;
using Json = nlohmann::json;

Json read_json(const std::filesystem::path& path) {
  return Json::parse(test::read_whole_file(path));
}

// Cases are [text, ids, ids if special tokens are plain text].
void expect_cases(const Tokenizer& tokenizer, const Json& cases, const std::string& name) {
  std::size_t different = 0;
  for (const Json& each : cases) {
    const auto text = each[0].get<std::string>();
    for (const bool parse_special : {true, false}) {
      const Ids ids = tokenizer.encode(text, test::without_bos(parse_special));
      const Ids expected = each[parse_special ? 1 : 2].get<Ids>();
      if (ids == expected || ++different > 3) continue;
      ADD_FAILURE() << name << ", parse_special " << parse_special << ": " << each[0] << "\nours "
                    << Json(ids) << "\nHugging Face's " << Json(expected);
    }
  }
  EXPECT_EQ(different, 0u) << name;
}

void expect_tokenizers(const std::filesystem::path& path) {
  for (const Json& each : read_json(path)) {
    const std::string name = each.at("name");
    const TokenizerSpec spec = tokenizer_spec_from_json(each.at("tokenizer").dump());
    expect_cases(Tokenizer(spec), each.at("cases"), name);
    if (spec.algorithm != TokenizerAlgorithm::byte_level_bpe && name != "Prepend") continue;
    const Tokenizer written = tokenizer_from_json(tokenizer_json_of(spec));
    expect_cases(written, each.at("cases"), name + ", written and read");
  }
}

TEST(TokenizerVectors, AddedTokensAreFoundAsHuggingFaceFindsThem) {
  const char* source = std::getenv("CLORA_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "ctest names the folder";
  expect_tokenizers(std::filesystem::path(source) / "tests/added_tokens.json");
}

TEST(TokenizerVectors, AddedTokensAreFoundInManyRandomTexts) {
  CLORA_FILE_OR_SKIP(path, test::test_data("tokenizer_vectors/added.json"), "random added tokens");
  expect_tokenizers(path);
}

// NAME.json in the folder tokenizer_vectors holds the cases of the tokenizer at the path.
void expect_random(const char* name, const char* tokenizer) {
  CLORA_FILE_OR_SKIP(cases, test::test_data(fmt::format("tokenizer_vectors/{}.json", name)),
                     "random texts");
  CLORA_FILE_OR_SKIP(path, test::test_data(tokenizer), "the tokenizer");
  expect_cases(tokenizer_from_json(test::read_whole_file(path)), read_json(cases), name);
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

TEST(TokenizerVectors, RandomTextsOfOtherModels) {
  for (const char* name : {"llama2", "llama3", "qwen3"}) {
    expect_random(name, fmt::format("tokenizer_vectors/{}/tokenizer.json", name).c_str());
  }
}

}  // namespace
}  // namespace clora
