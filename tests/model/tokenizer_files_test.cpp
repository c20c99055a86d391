// The tokenizers of real models against reference ids.
#include "clora/model/text/tokenizer_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "model/text/tokenizer_json.hpp"
#include "model/text/tokenizer_json_writing.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora {
namespace {

using test::ids_of;
using test::without_bos;
using Ids = std::vector<std::int32_t>;

// Expects that the written tokenizer is read back unchanged.
void expect_same_after_writing(const std::filesystem::path& model, const std::string& text) {
  const test::TemporaryFolder folder;
  write_tokenizer_files(model, folder.path());
  const Tokenizer before = load_tokenizer(model), after = load_tokenizer(folder.path());
  EXPECT_EQ(after.vocabulary_size(), before.vocabulary_size());
  EXPECT_EQ(after.bos(), before.bos());
  EXPECT_EQ(after.eos(), before.eos());
  EXPECT_EQ(after.chat_template(), before.chat_template());
  EXPECT_EQ(after.tool_chat_template(), before.tool_chat_template());
  EXPECT_EQ(after.end_of_generation(), before.end_of_generation());
  EncodeOptions options;
  options.parse_special = true;
  EXPECT_EQ(after.encode(text, options), before.encode(text, options));
}

TEST(TokenizerFiles, WriteATokenizerOfGgufAsAFolder) {
  const std::string text =
      "<|im_start|>user\nIt's 1234 days,  Lily said.\n\n<|im_end|>\u6f22 caf\u00e9 <s> </s>a";
  CLORA_REQUIRE_TEST_DATA(stories, "models/stories260k/stories260K.gguf");
  expect_same_after_writing(stories, text);
  CLORA_REQUIRE_TEST_DATA(folder, "models/tinystories-656k");
  expect_same_after_writing(folder, text);
  expect_same_after_writing(folder / "gguf-derived/TinyStories-656K-F32.gguf", text);
  CLORA_DEMO_MODEL_OR_SKIP(model);
  expect_same_after_writing(model, text);
}

TEST(TokenizerFiles, KeepTheTemplateForTools) {
  const test::TemporaryFolder folder;
  TokenizerSpec spec = test::byte_level_spec();
  spec.chat_template = "d";
  spec.tool_chat_template = "t";
  test::write_file(folder / "tokenizer.json", tokenizer_json_of(spec));
  test::write_file(folder / "tokenizer_config.json", tokenizer_config_json_of(spec));
  EXPECT_EQ(load_tokenizer(folder.path()).chat_template(), "d");
  EXPECT_EQ(load_tokenizer(folder.path()).tool_chat_template(), "t");
  std::filesystem::create_directory(folder / "additional_chat_templates");
  test::write_file(folder / "additional_chat_templates/tool_use.jinja", "newer");
  EXPECT_EQ(load_tokenizer(folder.path()).tool_chat_template(), "newer");
  expect_same_after_writing(folder.path(), "ab");
}

TEST(TokenizerFiles, RefuseAFolderWithoutTokenizer) {
  const test::TemporaryFolder folder;
  CLORA_EXPECT_ERROR(load_tokenizer(folder.path()), ErrorCode::not_found, "tokenizer.json");
  CLORA_EXPECT_ERROR(load_tokenizer(folder / "none.gguf"), ErrorCode::not_found, "none.gguf");
}

TEST(TokenizerFiles, AddTheEndsOfTheGenerationConfiguration) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "tokenizer.json", tokenizer_json_of(test::byte_level_spec()));
  const auto ends_with = [&folder](const std::string& generation) {
    test::write_file(folder / "generation_config.json", generation);
    return load_tokenizer(folder.path()).end_of_generation();
  };
  EXPECT_THAT(ends_with(R"({"eos_token_id":[5,-1,4294967301]})"), testing::Contains(5));
  EXPECT_THAT(ends_with(R"({"eos_token_id":null})"), testing::Not(testing::Contains(5)));
  CLORA_EXPECT_ERROR(ends_with(R"({"eos_token_id":"5"})"), ErrorCode::invalid_file,
                     "eos_token_id must be a token's id or a list of them");
}

// llama.cpp's vectors: texts between marker lines, and one line of ids for each.
void expect_vectors(const char* folder, const std::filesystem::path& inputs,
                    const std::filesystem::path& outputs) {
  CLORA_REQUIRE_TEST_DATA(json, std::string("tokenizers/") + folder + "/tokenizer.json");
  const Tokenizer tokenizer = tokenizer_from_json(test::read_file(json));
  const std::string marker = "\n__ggml_vocab_test__\n";
  const std::string texts = test::read_file(inputs);
  std::istringstream lines(test::read_file(outputs));
  std::string line;
  int count = 0;
  for (std::size_t at = 0; at < texts.size(); ++count) {
    const std::size_t end = std::min(texts.find(marker, at), texts.size());
    const std::string text = texts.substr(at, end - at);
    ASSERT_TRUE(std::getline(lines, line)) << "ids of text " << count;
    std::istringstream numbers(line);
    const Ids expected{std::istream_iterator<std::int32_t>(numbers), {}};
    EXPECT_EQ(tokenizer.encode(text, without_bos()), expected) << "'" << text << "'";
    at = end + marker.size();
  }
  EXPECT_EQ(count, 46);
}

TEST(TokenizerFiles, AgreesWithTheVectorsOfQwen2) {
  CLORA_REQUIRE_TEST_DATA(inputs, "tokenizers/ggml-vocab-qwen2.gguf.inp");
  CLORA_REQUIRE_TEST_DATA(outputs, "tokenizers/ggml-vocab-qwen2.gguf.out");
  expect_vectors("qwen2.5", inputs, outputs);
}

TEST(TokenizerFiles, AgreesWithTheVectorsOfGpt2) {
  CLORA_REQUIRE_TEST_DATA(inputs, "tokenizers/ggml-vocab-gpt-2.gguf.inp");
  CLORA_REQUIRE_TEST_DATA(outputs, "tokenizers/ggml-vocab-gpt-2.gguf.out");
  expect_vectors("gpt2", inputs, outputs);
}

TEST(TokenizerFiles, AgreesWithTheReferenceOfSmolLm2) {
  CLORA_DEMO_MODEL_OR_SKIP(model);
  CLORA_REQUIRE_TEST_DATA(path, "models/reference/SmolLM2-135M-Instruct.Q4_1.json");
  const Tokenizer tokenizer = load_tokenizer(model);
  const nlohmann::json reference = nlohmann::json::parse(test::read_file(path));
  EncodeOptions options;
  options.parse_special = true;
  for (const auto& prompt : reference.at("prompts")) {
    EXPECT_EQ(tokenizer.encode(prompt.at("text").get<std::string>(), options),
              prompt.at("prompt_ids").get<Ids>());
    EXPECT_EQ(tokenizer.decode(prompt.at("greedy_ids").get<Ids>(), {.keep_special = true}),
              prompt.at("greedy_text").get<std::string>());
  }
  EXPECT_EQ(tokenizer.eos(), 2);
  EXPECT_TRUE(tokenizer.ends_generation(0)) << tokenizer.token_text(0);
}

TEST(TokenizerFiles, AgreesWithTheReferenceOfTinyStories656K) {
  CLORA_REQUIRE_TEST_DATA(folder, "models/tinystories-656k");
  CLORA_REQUIRE_TEST_DATA(path, "models/reference/TinyStories-656K.json");
  const nlohmann::json reference = nlohmann::json::parse(test::read_file(path));
  const std::string prompt = reference.at("prompt").get<std::string>();
  const Ids expected = reference.at("prompt_ids").get<Ids>();
  const Tokenizer from_json = load_tokenizer(folder);
  const Tokenizer from_gguf = load_tokenizer(folder / "gguf-derived/TinyStories-656K-F32.gguf");
  EXPECT_EQ(from_json.encode(prompt), expected);
  EXPECT_EQ(from_gguf.encode(prompt), expected);
  EXPECT_EQ(from_json.decode(expected), prompt);
  EXPECT_TRUE(from_json.ends_generation(2));
  // A run of characters that are not in the vocabulary becomes one unknown token.
  EXPECT_EQ(from_json.encode("Tim 漢字 said", without_bos()),
            from_gguf.encode("Tim 漢字 said", without_bos()));
}

// The ids were computed by the Python package sentencepiece from tok512.model.
TEST(TokenizerFiles, AgreesWithSentencePieceOnStories260K) {
  CLORA_REQUIRE_TEST_DATA(model, "models/stories260k/stories260K.gguf");
  const Tokenizer tokenizer = load_tokenizer(model);
  const std::vector<std::pair<std::string, Ids>> expected = {
      {"Once upon a time, there was a little girl named Lily.",
       {403, 407, 261, 378, 432, 383, 286, 261, 376, 298, 315, 421, 395, 317, 426}},
      {"Lily's mom said, \042Lily, let's go to the park.\042",
       {317, 439, 419, 357, 336, 432, 313, 438, 310, 432, 278, 316,
        439, 419, 298, 414, 267, 265, 282, 295, 433, 426, 436}},
      {"caf\303\251 \346\274\242 \360\237\246\231",
       {280, 412, 431, 485, 410, 233, 191, 165, 410, 243, 162, 169, 156}},
      {"a\012b\011c", {261, 13, 430, 12, 429}},
      {"12345", {410, 475, 479, 472, 484, 480}},
      {"", {}},
  };
  for (const auto& [text, ids] : expected) {
    EXPECT_EQ(tokenizer.encode(text, without_bos()), ids) << text;
    EXPECT_EQ(tokenizer.decode(ids), text);
  }
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.encode("a").front(), 1);
}

TEST(TokenizerFiles, ContinuesATextWithoutADummySpace) {
  CLORA_REQUIRE_TEST_DATA(model, "models/stories260k/stories260K.gguf");
  const Tokenizer tokenizer = load_tokenizer(model);
  EncodeOptions continued;
  continued.continues = true;
  const Ids ids = tokenizer.encode(" a", continued);
  EXPECT_EQ(ids, ids_of(tokenizer, {"\u2581a"}));
  EXPECT_EQ(tokenizer.decode(ids, {.continues = true}), " a");
  EXPECT_EQ(tokenizer.decode(ids), "a");
}

}  // namespace
}  // namespace clora
