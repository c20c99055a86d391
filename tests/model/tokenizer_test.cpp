#include "clora/model/text/tokenizer.hpp"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "model/text/symbol_merging.hpp"
#include "model/text/utf8.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora {
namespace {

using test::byte_level_spec;
using test::byte_symbol;
using test::ids_of;
using test::without_bos;
using Ids = std::vector<std::int32_t>;

// Characters that tokenizers often handle wrongly, with plain text between them.
std::string odd_text(std::mt19937& random) {
  static const std::vector<std::string> kParts = {"the",
                                                  " the",
                                                  "hello",
                                                  "'s",
                                                  "'LL",
                                                  " 12",
                                                  "½",
                                                  "\n",
                                                  "\r\n",
                                                  "  ",
                                                  "\t",
                                                  "é",
                                                  "e\u0301",
                                                  "\u00A0",
                                                  "\u180E",
                                                  "\u200B",
                                                  "\u3000",
                                                  "한국",
                                                  "漢字",
                                                  "🦙",
                                                  "👩‍🚀",
                                                  "\xFF",
                                                  "\xC3",
                                                  "\xE2\x82",
                                                  "\xF0\x9F",
                                                  std::string(1, '\0'),
                                                  "\x01",
                                                  "<|",
                                                  "|>",
                                                  "_",
                                                  "."};
  std::string text;
  for (std::size_t n = random() % 40; n > 0; --n) text += kParts[random() % kParts.size()];
  return text;
}

TEST(Tokenizer, MergesTheBestRankFirst) {
  const Tokenizer tokenizer(byte_level_spec());
  EXPECT_EQ(tokenizer.encode("the the"), ids_of(tokenizer, {"the", "\u0120the"}));
  EXPECT_EQ(tokenizer.encode("hello"), ids_of(tokenizer, {"h", "e", "llo"}));
  EXPECT_EQ(tokenizer.encode("abc"), ids_of(tokenizer, {"abc"}));
  EXPECT_EQ(tokenizer.encode("bbc"), ids_of(tokenizer, {"b", "bc"}));
  EXPECT_TRUE(tokenizer.encode("").empty());
}

TEST(Tokenizer, TakesTheLeftmostOfEqualMerges) {
  TokenizerSpec spec = byte_level_spec();
  spec.tokens.push_back("aa");
  spec.types.push_back(TokenType::normal);
  spec.merges.push_back({"a", "a"});
  const Tokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.encode("aaa"), ids_of(tokenizer, {"aa", "a"}));
}

TEST(Tokenizer, MergesLongRowsAsShortOnes) {
  std::mt19937 random(7);
  // Pairs of small ids merge to their sum. Priorities repeat, so ties occur.
  const auto find = [](const Symbol& left, const Symbol& right) -> SymbolMerge {
    const std::int32_t sum = left.id + right.id;
    if (sum % 3 == 0 || sum > 40) return {};
    return {sum, static_cast<float>((left.id * 7 + right.id * 5) % 6)};
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<Symbol> scanned;
    for (std::uint32_t i = 0; i < 2 + random() % 120; ++i) {
      scanned.push_back({i, 1, static_cast<std::int32_t>(1 + random() % 5)});
    }
    std::vector<Symbol> heaped = scanned;
    merge_symbols(scanned, find, 1000);
    merge_symbols(heaped, find, 0);
    ASSERT_EQ(scanned.size(), heaped.size());
    for (std::size_t i = 0; i < scanned.size(); ++i) {
      ASSERT_EQ(scanned[i].offset, heaped[i].offset);
      ASSERT_EQ(scanned[i].length, heaped[i].length);
      ASSERT_EQ(scanned[i].id, heaped[i].id);
    }
  }
}

TEST(Tokenizer, ExtractsControlTokensOnlyIfTheyAreParsed) {
  const Tokenizer tokenizer(byte_level_spec());
  const std::string text = "the<|im_end|>the";
  EXPECT_EQ(tokenizer.encode(text, without_bos(true)),
            ids_of(tokenizer, {"the", "<|im_end|>", "the"}));
  const Ids plain = tokenizer.encode(text);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), *tokenizer.id_of("<|im_end|>")), 0);
  EXPECT_EQ(tokenizer.decode(plain), text);
}

TEST(Tokenizer, AlwaysCutsUserDefinedTokensOut) {
  const Tokenizer tokenizer(byte_level_spec());
  EXPECT_EQ(tokenizer.encode("the<tool>"), ids_of(tokenizer, {"the", "<tool>"}));
}

TEST(Tokenizer, TakesTheLongestOfTheSpecialTokensThatBeginTogether) {
  TokenizerSpec spec = byte_level_spec();
  spec.tokens.push_back("<|im_start|>x");
  spec.types.push_back(TokenType::control);
  const Tokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.encode("<|im_start|>x<|im_start|>", without_bos(true)),
            ids_of(tokenizer, {"<|im_start|>x", "<|im_start|>"}));
}

TEST(Tokenizer, PutsBosInFrontAsTheModelOrTheCallerSays) {
  TokenizerSpec spec = byte_level_spec();
  spec.add_bos = true;
  const Tokenizer tokenizer(spec);
  EncodeOptions options;
  EXPECT_EQ(tokenizer.encode("the"), ids_of(tokenizer, {"<|bos|>", "the"}));
  options.continues = true;
  EXPECT_EQ(tokenizer.encode("the", options), ids_of(tokenizer, {"the"}));
  EXPECT_EQ(tokenizer.encode("the", without_bos()), ids_of(tokenizer, {"the"}));
  options.add_bos = AddBos::yes;
  EXPECT_EQ(Tokenizer(byte_level_spec()).encode("the", options),
            ids_of(tokenizer, {"<|bos|>", "the"}));
  spec.bos.reset();
  CLORA_EXPECT_ERROR(Tokenizer(spec).encode("the", options), ErrorCode::invalid_argument, "bos");
}

TEST(Tokenizer, KeepsEveryByteOfAnyText) {
  const Tokenizer tokenizer(byte_level_spec());
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    const std::string text = odd_text(random);
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  const std::string spaces(100000, ' ');  // deep for a recursive matcher
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(spaces)), spaces);
}

TEST(Tokenizer, DropsControlTokensFromTextUnlessTheyAreKept) {
  const Tokenizer tokenizer(byte_level_spec());
  const Ids ids = ids_of(tokenizer, {"the", "<|im_end|>"});
  EXPECT_EQ(tokenizer.decode(ids), "the");
  EXPECT_EQ(tokenizer.decode(ids, {.keep_special = true}), "the<|im_end|>");
}

TEST(Tokenizer, RefusesIdsOutsideOfTheVocabulary) {
  const Tokenizer tokenizer(byte_level_spec());
  for (const std::int32_t id : {-1, tokenizer.vocabulary_size()}) {
    CLORA_EXPECT_ERROR(tokenizer.decode(Ids{id}), ErrorCode::invalid_argument, "[0, ");
    CLORA_EXPECT_ERROR(tokenizer.token_text(id), ErrorCode::invalid_argument, "[0, ");
  }
}

TEST(Tokenizer, ReadsTheTokensThatEndAnAnswer) {
  TokenizerSpec spec = byte_level_spec();
  spec.eos.reset();
  spec.end_of_generation = {3};
  const Tokenizer tokenizer(spec);
  EXPECT_TRUE(tokenizer.ends_generation(*tokenizer.id_of("<|im_end|>")));
  EXPECT_TRUE(tokenizer.ends_generation(3));
  EXPECT_FALSE(tokenizer.ends_generation(*tokenizer.id_of("<|im_start|>")));
}

TEST(Tokenizer, RefusesPartsThatDoNotFitTogether) {
  const auto refuses = [](auto change, const char* part) {
    TokenizerSpec spec = byte_level_spec();
    change(spec);
    CLORA_EXPECT_ERROR(Tokenizer(spec), ErrorCode::invalid_file, part);
  };
  refuses([](TokenizerSpec& s) { s.tokens.clear(); }, "no tokens");
  refuses([](TokenizerSpec& s) { s.types.pop_back(); }, "the same number of types");
  refuses([](TokenizerSpec& s) { s.merges.push_back({"q", "zz"}); }, "merge 8");
  refuses([](TokenizerSpec& s) { s.merges.push_back({"q", "z"}); }, "merge 8");
  refuses([](TokenizerSpec& s) { s.eos = 5000; }, "eos");
  refuses([](TokenizerSpec& s) { s.algorithm = TokenizerAlgorithm::sentencepiece_scores; },
          "the same number of scores");
}

TEST(Tokenizer, EncodesTheSameFromSeveralThreads) {
  const Tokenizer tokenizer(byte_level_spec());
  std::string text;
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) text += odd_text(random);
  const Ids expected = tokenizer.encode(text);
  std::vector<Ids> results(4);
  std::vector<std::thread> threads;
  for (Ids& result : results) threads.emplace_back([&] { result = tokenizer.encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& result : results) EXPECT_EQ(result, expected);
}

TEST(StreamDecoder, YieldsCompleteCharactersOnly) {
  const Tokenizer tokenizer(byte_level_spec());
  StreamDecoder stream(tokenizer);
  std::string all;
  const std::string text = "é🦙x";
  for (const std::int32_t id : tokenizer.encode(text)) {
    const std::string part = stream.push(id);
    EXPECT_EQ(replace_invalid_utf8(part), part);
    all += part;
  }
  EXPECT_EQ(all, text);
  EXPECT_EQ(stream.finish(), "");
}

TEST(StreamDecoder, ReplacesBytesThatNeverBecomeACharacter) {
  const Tokenizer tokenizer(byte_level_spec());
  StreamDecoder stream(tokenizer);
  const auto push = [&](unsigned char byte) {
    return stream.push(*tokenizer.id_of(byte_symbol(byte)));
  };
  EXPECT_EQ(push(0xFF), "\uFFFD");
  EXPECT_EQ(push(0xE2), "");
  EXPECT_EQ(push('a'), "\uFFFDa");
  EXPECT_EQ(push(0xF0), "");
  EXPECT_EQ(push(0x9F), "");
  EXPECT_EQ(stream.finish(), "\uFFFD\uFFFD");
}

TEST(Utf8, RefusesOverlongFormsSurrogatesAndWhatIsTooLarge) {
  for (const char* text : {"\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80",
                           "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\x80"}) {
    const Utf8Char c = read_utf8(text, 0);
    EXPECT_EQ(c.code_point, -1) << text;
    EXPECT_FALSE(c.cut_off) << text;
  }
  EXPECT_EQ(read_utf8("\xF4\x8F\xBF\xBF", 0).code_point, 0x10FFFF);
  EXPECT_TRUE(read_utf8("\xE2\x82", 0).cut_off);
}

TEST(Utf8, ComposesAndKeepsInvalidBytes) {
  EXPECT_EQ(normalize_nfc("e\u0301\xFF\u212B"), "\u00E9\xFF\u00C5");
}

}  // namespace
}  // namespace clora
