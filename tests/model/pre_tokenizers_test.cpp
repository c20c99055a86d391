// Pre-tokenisers by their names in GGUF files (model/text/pre_tokenizers.hpp), against Hugging
// Face's of the same models (tests/reference/pre_tokenizers.py), and what they imply.
#include "model/text/pre_tokenizers.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "clora/model/text/tokenizer_files.hpp"
#include "tests/support/gguf_bytes.hpp"
#include "tests/support/pre_tokenizer_cases.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora {
namespace {

using test::append_gguf_string;
using test::append_scalar;
using test::GgufBytes;
using test::write_file;

std::filesystem::path reference(std::string_view name) {
  const char* source = std::getenv("CLORA_SOURCE_DIR");
  if (source == nullptr) throw std::runtime_error("CLORA_SOURCE_DIR is not set; run by ctest");
  return std::filesystem::path(source) / "tests/reference" / name;
}

TEST(PreTokenizers, SplitTextsAsHuggingFaceDoes) {
  const auto tested = test::expect_pre_tokenizers(reference("pre_tokenizers.json"));
  for (const std::string_view name : pre_tokenizer_names())
    EXPECT_TRUE(tested.contains(std::string(name))) << name;
}

TEST(PreTokenizers, RefuseAnUnknownNameWithTheKnownOnes) {
  CLORA_EXPECT_ERROR(pre_tokenizer_of("viking"), ErrorCode::unsupported,
                     "unknown pre-tokeniser 'viking' (tokenizer.ggml.pre); known pre-tokenisers: "
                     "default, gpt-2, gpt2, ");
}

TEST(PreTokenizers, ImplyWhatTheTokenizersOfTheirFamiliesDo) {
  const auto flags = [](std::string_view name) {
    const PreTokenizer pre = pre_tokenizer_of(name);
    return std::string(pre.normalize_nfc ? "nfc " : "") +
           (pre.ignore_merges ? "ignore_merges " : "") + (pre.add_bos ? "bos" : "");
  };
  for (const char* name : {"llama-bpe", "lfm2", "tekken"})
    EXPECT_EQ(flags(name), "ignore_merges bos") << name;
  for (const char* name : {"qwen2", "qwen35"}) EXPECT_EQ(flags(name), "nfc ") << name;
  for (const char* name : {"default", "gpt-2", "smollm", "refact", "dbrx", "seed-coder", "gpt-4o"})
    EXPECT_EQ(flags(name), "") << name;
}

TEST(PreTokenizers, AreKnownToLeaveNoGapExceptTheDefault) {
  EXPECT_TRUE(leaves_no_gap(pre_tokenizer_of("gpt-4o").patterns.front()));
  EXPECT_FALSE(leaves_no_gap(pre_tokenizer_of("default").patterns.back()));
  EXPECT_FALSE(leaves_no_gap(R"(\p{N})"));
}

constexpr std::uint32_t kArray = 9, kString = 8, kInt = 5, kFloat = 6;

std::string array_of(const std::vector<std::string>& texts) {
  std::string encoded;
  append_scalar(encoded, kString);
  append_scalar(encoded, static_cast<std::uint64_t>(texts.size()));
  for (const std::string& text : texts) append_gguf_string(encoded, text);
  return encoded;
}

template <class T>
std::string array_of(std::uint32_t type, const std::vector<T>& values) {
  std::string encoded;
  append_scalar(encoded, type);
  append_scalar(encoded, static_cast<std::uint64_t>(values.size()));
  for (const T value : values) append_scalar(encoded, value);
  return encoded;
}

class GgufTokenizer : public ::testing::Test {
 protected:
  Tokenizer load(const GgufBytes& file) {
    write_file(folder_ / "m.gguf", file.bytes());
    return load_tokenizer(folder_ / "m.gguf");
  }

  // GPT-2's bytes, a, b, c and the token abc, which no merge makes.
  Tokenizer byte_level(const char* pre) {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte)
      tokens.push_back(test::byte_symbol(static_cast<unsigned char>(byte)));
    tokens.insert(tokens.end(), {"abc", "ab", "<s>"});
    GgufBytes file;
    file.add_text("tokenizer.ggml.model", "gpt2").add_text("tokenizer.ggml.pre", pre);
    file.add_raw("tokenizer.ggml.tokens", kArray, array_of(tokens));
    file.add_raw("tokenizer.ggml.merges", kArray, array_of({"a b"}));
    file.add_integer("tokenizer.ggml.bos_token_id", 258);
    return load(file);
  }

  test::TemporaryFolder folder_;
};

TEST_F(GgufTokenizer, IgnoresMergesAndAddsBosIfItsPreTokeniserImpliesThat) {
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(byte_level("tekken").encode("abc"), (Ids{258, 256}));
  EXPECT_EQ(byte_level("llama-bpe").encode("abc"), (Ids{258, 256}));
  EXPECT_EQ(byte_level("gpt-4o").encode("abc"), (Ids{257, 'c'}));
}

TEST_F(GgufTokenizer, NormalisesAsQwenDoes) {
  const auto composed = [this](const char* pre) {
    const Tokenizer tokenizer = byte_level(pre);
    return tokenizer.encode("e\u0301") == tokenizer.encode("\u00e9");
  };
  EXPECT_TRUE(composed("qwen2"));
  EXPECT_TRUE(composed("qwen35"));
  EXPECT_FALSE(composed("gpt-4o"));
}

TEST_F(GgufTokenizer, RefusesAnUnknownPreTokeniserByName) {
  CLORA_EXPECT_ERROR(byte_level("viking"), ErrorCode::unsupported, "'viking'");
}

// SentencePiece, with the tokens of a chat template.
GgufBytes sentencepiece(const char* architecture) {
  GgufBytes file;
  file.add_text("general.architecture", architecture).add_text("tokenizer.ggml.model", "llama");
  file.add_raw(
      "tokenizer.ggml.tokens", kArray,
      array_of({"<unk>", "<s>", "</s>", "<0x0A>", "\u2581", "a", "<|user|>", "<|endoftext|>"}));
  file.add_raw("tokenizer.ggml.scores", kArray,
               array_of<float>(kFloat, {0, 0, 0, 0, -1, -2, 0, 0}));
  file.add_raw("tokenizer.ggml.token_type", kArray,
               array_of<std::int32_t>(kInt, {2, 3, 3, 6, 1, 1, 3, 3}));
  file.add_raw("tokenizer.ggml.add_space_prefix", 7, std::string(1, '\0'));
  return file;
}

TEST_F(GgufTokenizer, TakesWhiteSpaceAfterTheTokensOfPhi3) {
  using Ids = std::vector<std::int32_t>;
  const EncodeOptions special{.parse_special = true, .add_bos = AddBos::no};
  const char* text = "<|user|>\na<|endoftext|>\na";
  EXPECT_EQ(load(sentencepiece("phi3")).encode(text, special), (Ids{6, 5, 7, 3, 5}));
  EXPECT_EQ(load(sentencepiece("llama")).encode(text, special), (Ids{6, 3, 5, 7, 3, 5}));
}

}  // namespace
}  // namespace clora
