// Tokenizers as GGUF metadata (model/text/tokenizer_gguf_writing.hpp): read back, they give the
// same tokens; what GGUF cannot hold is refused.
#include "model/text/tokenizer_gguf_writing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "clora/model/text/tokenizer_files.hpp"
#include "model/text/pre_tokenizers.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class TokenizerGgufWriting : public testing::Test {
 protected:
  GgufFile written(const TokenizerSpec& spec, std::int64_t vocabulary = 0) {
    GgufMetadata metadata;
    metadata.set_text("general.architecture", "llama");
    const auto tokens = static_cast<std::int64_t>(spec.tokens.size());
    write_gguf_tokenizer(metadata, spec, std::max(vocabulary, tokens));
    const std::vector<GgufTensorDescription> tensors{{"x", DType::f32, {8}}};
    write_gguf(folder_ / "t.gguf", metadata, tensors,
               [](std::size_t) { return std::vector<std::byte>(32); });
    return GgufFile::open(folder_ / "t.gguf");
  }
  TokenizerSpec read_back(const TokenizerSpec& spec) {
    return tokenizer_spec_from_gguf(written(spec));
  }

  // Characters with a merge of two and one of three; the last has two ways.
  static TokenizerSpec merged_spec() {
    TokenizerSpec spec;
    spec.algorithm = TokenizerAlgorithm::sentencepiece_merges;
    spec.tokens = {"<unk>", "<s>", "</s>", "\u2581", "a", "b", "c", "ab", "bc", "abc"};
    spec.types.assign(spec.tokens.size(), TokenType::normal);
    spec.types[0] = spec.types[1] = spec.types[2] = TokenType::control;
    spec.merges = {{"a", "b"}, {"b", "c"}, {"ab", "c"}, {"a", "bc"}};
    spec.unknown = 0;
    spec.bos = 1;
    spec.eos = 2;
    spec.add_bos = true;
    return spec;
  }

  test::TemporaryFolder folder_;
};

// The vectors are llama.cpp's: the ids of each text.
TEST_F(TokenizerGgufWriting, RealVocabulariesGiveTheSameTokens) {
  for (const auto& [folder, pre] :
       {std::pair{"tokenizers/qwen2.5", "qwen2"}, {"tokenizers/gpt2", "gpt-2"}}) {
    CLORA_REQUIRE_TEST_DATA(path, folder);
    const TokenizerSpec spec = load_tokenizer_spec(path);
    const GgufFile file = written(spec);
    EXPECT_EQ(file.text("tokenizer.ggml.pre"), pre);
    EXPECT_THAT(require_same_tokens(spec, tokenizer_spec_from_gguf(file)), IsEmpty());
    const Tokenizer one(spec), other = tokenizer_from_gguf(file);
    const std::string texts = test::read_file(test::test_data("datasets/tinyshakespeare.txt"));
    EXPECT_EQ(one.encode(texts.substr(0, 20000)), other.encode(texts.substr(0, 20000)));
  }
}

TEST_F(TokenizerGgufWriting, EveryFieldOfAByteLevelVocabularyIsKept) {
  TokenizerSpec spec = test::byte_level_spec();
  spec.chat_template = "{{ messages }}";
  spec.tool_chat_template = "{{ tools }}";
  spec.add_bos = true;
  spec.end_of_generation = {3, 4};
  const TokenizerSpec read = read_back(spec);
  EXPECT_EQ(read.tokens, spec.tokens);
  EXPECT_EQ(read.types, spec.types);
  EXPECT_EQ(read.split_patterns, spec.split_patterns);
  EXPECT_EQ(read.merges.size(), spec.merges.size());
  EXPECT_EQ(read.bos, spec.bos);
  EXPECT_EQ(read.eos, spec.eos);
  EXPECT_EQ(read.add_bos, true);
  EXPECT_EQ(read.end_of_generation, spec.end_of_generation);
  EXPECT_EQ(read.chat_template, spec.chat_template);
  EXPECT_EQ(read.tool_chat_template, spec.tool_chat_template);
  EXPECT_THAT(require_same_tokens(spec, read), IsEmpty());
}

// llama.cpp sets ignore_merges by the name alone, and bos by its key.
TEST_F(TokenizerGgufWriting, EveryPreTokeniserGetsANameWithTheSameRules) {
  for (const std::string_view name : pre_tokenizer_names()) {
    const PreTokenizer want = pre_tokenizer_of(name);
    TokenizerSpec spec = test::byte_level_spec();
    spec.split_patterns = want.patterns;
    spec.normalize_nfc = want.normalize_nfc;
    spec.ignore_merges = want.ignore_merges;
    const GgufFile file = written(spec);
    const PreTokenizer got = pre_tokenizer_of(file.text("tokenizer.ggml.pre").value());
    EXPECT_EQ(got.patterns, want.patterns) << name;
    EXPECT_EQ(got.normalize_nfc, want.normalize_nfc) << name;
    EXPECT_EQ(got.ignore_merges, want.ignore_merges) << name;
    EXPECT_EQ(file.boolean("tokenizer.ggml.add_bos_token"), false) << name;
    EXPECT_NE(file.text("tokenizer.ggml.pre"), "smaug-bpe");
  }
}

TEST_F(TokenizerGgufWriting, RankedMergesBecomeScores) {
  TokenizerSpec spec = merged_spec();
  std::swap(spec.merges[2], spec.merges[3]);  // two ways to one token: any order
  const GgufFile file = written(spec);
  EXPECT_EQ(file.text("tokenizer.ggml.model"), "llama");
  EXPECT_EQ(file.find_value("tokenizer.ggml.scores")->floats().value(),
            (std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, -1, -2}));
  EXPECT_EQ(file.find_value("tokenizer.ggml.token_type")->integers().value()[0], 2);
  const Tokenizer one(spec), other = tokenizer_from_gguf(file);
  for (const char* text : {"abc", "aabbcc", "ab cab", "bcbc"}) {
    EXPECT_EQ(one.encode(text), other.encode(text)) << text;
  }
}

TEST_F(TokenizerGgufWriting, MergesInAnotherOrderThanScoresAreRefused) {
  TokenizerSpec apart = merged_spec();
  apart.merges = {{"a", "b"}, {"ab", "c"}, {"b", "c"}, {"a", "bc"}};  // abc, bc, abc
  CLORA_EXPECT_ERROR(written(apart), ErrorCode::unsupported, "not the order of scores");
}

TEST_F(TokenizerGgufWriting, ScoresThatMergeFurtherPairsAreWarnedOf) {
  TokenizerSpec spec = merged_spec();
  EXPECT_THAT(require_same_tokens(spec, read_back(spec)), IsEmpty());
  spec.merges.pop_back();  // the scores also merge a and bc
  EXPECT_THAT(require_same_tokens(spec, read_back(spec)), HasSubstr("merge further pairs"));
}

TEST_F(TokenizerGgufWriting, ASmallerVocabularyIsPadded) {
  const TokenizerSpec spec = merged_spec();
  const GgufFile file = written(spec, 13);
  const auto tokens = file.find_value("tokenizer.ggml.tokens")->texts().value();
  ASSERT_EQ(tokens.size(), 13U);
  EXPECT_EQ(tokens[12], "[PAD12]");
  EXPECT_EQ(file.find_value("tokenizer.ggml.token_type")->integers().value()[12], 5);  // unused
  GgufMetadata metadata;
  CLORA_EXPECT_ERROR(write_gguf_tokenizer(metadata, spec, 9), ErrorCode::unsupported,
                     "has 10 tokens, but the model's embeddings have 9 rows");
}

TEST_F(TokenizerGgufWriting, WhatGgufHasNoNameForIsRefused) {
  TokenizerSpec pattern = test::byte_level_spec();
  pattern.split_patterns = {R"(\p{L}+|\s+)"};
  CLORA_EXPECT_ERROR(written(pattern), ErrorCode::unsupported, "tokenizer.ggml.pre");
  TokenizerSpec pieces = test::byte_level_spec();
  pieces.algorithm = TokenizerAlgorithm::word_piece;
  CLORA_EXPECT_ERROR(written(pieces), ErrorCode::unsupported, "word pieces");
}

TEST_F(TokenizerGgufWriting, ADifferenceBetweenTheTwoIsFound) {
  const TokenizerSpec spec = test::byte_level_spec();
  const auto expect_refused = [&](const char* words, auto change) {
    TokenizerSpec other = spec;
    change(other);
    CLORA_EXPECT_ERROR(require_same_tokens(spec, other), ErrorCode::unsupported, words);
  };
  expect_refused("other tokens for", [](auto& s) { s.merges.clear(); });
  expect_refused("other ends of a reply", [](auto& s) { s.end_of_generation = {1}; });
  expect_refused("other tokens for", [](auto& s) { s.add_bos = !s.add_bos; });
  expect_refused("other prompts of a chat", [](auto& s) { s.chat_template = "x"; });
}

TEST_F(TokenizerGgufWriting, ASpaceBeforeTheFirstTextOnlyIsWarnedOf) {
  TokenizerSpec spec = merged_spec();
  spec.space_prefix = SpacePrefix::first_fragment;
  EXPECT_THAT(require_same_tokens(spec, read_back(spec)), HasSubstr("between special tokens"));
}

}  // namespace
}  // namespace clora
