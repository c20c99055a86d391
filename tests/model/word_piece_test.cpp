// WordPiece against Hugging Face's tokenizers (tests/reference/word_pieces.py), from each format of
// its files.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>

#include "clora/model/text/tokenizer_files.hpp"
#include "model/text/utf8.hpp"
#include "model/text/word_piece/bert_normalizer.hpp"
#include "tests/support/tokenizer_cases.hpp"
#include "tests/support/word_piece_files.hpp"

namespace clora {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

json reference(const char* name) {
  const char* source = std::getenv("CLORA_SOURCE_DIR");
  if (source == nullptr) throw std::runtime_error("CLORA_SOURCE_DIR is not set; run by ctest");
  return json::parse(test::read_file(std::filesystem::path(source) / "tests/reference" / name));
}

json tokenizer_named(const std::string& name) {
  for (const json& each : reference("word_pieces.json")) {
    if (each.at("name") == name) return each;
  }
  throw std::runtime_error("no tokenizer '" + name + "' in word_pieces.json");
}

TEST(WordPiece, HasTheIdsAndTheTextsOfHuggingFace) {
  test::expect_encoders(reference("word_pieces.json"));
}

// The tokenizer with its special tokens, which tokenizer.json does not name by their roles.
TokenizerSpec spec_with_roles(const json& each, const char* pad, const char* mask) {
  const json config = {{"pad_token", pad}, {"mask_token", mask}};
  return tokenizer_spec_from_json(each.at("tokenizer").dump(), config.dump());
}

struct Kind {
  const char *name, *tokenizer_class, *pad, *mask;
};
constexpr std::array<Kind, 3> kKinds = {{{"bert, uncased", "BertTokenizer", "[PAD]", "[MASK]"},
                                         {"bert, cased", "BertTokenizerFast", "[PAD]", "[MASK]"},
                                         {"mpnet", "MPNetTokenizer", "<pad>", "<mask>"}}};

TEST(WordPiece, IsTheSameFromGguf) {
  const test::TemporaryFolder folder;
  for (const Kind& kind : kKinds) {
    const json each = tokenizer_named(kind.name);
    const TokenizerSpec spec = spec_with_roles(each, kind.pad, kind.mask);
    test::write_file(folder / "model.gguf", test::word_piece_gguf(spec));
    test::expect_framed_cases(load_tokenizer(folder / "model.gguf"), each.at("cases"), kind.name);
    write_tokenizer_files(folder / "model.gguf", folder.path());
    test::expect_framed_cases(load_tokenizer(folder.path()), each.at("cases"),
                              std::string(kind.name) + ", as a folder");
  }
}

TEST(WordPiece, IsTheSameFromAnOldGgufWithoutTypesOfTokens) {
  const test::TemporaryFolder folder;
  const json each = tokenizer_named("bert, uncased");
  const TokenizerSpec spec = spec_with_roles(each, "[PAD]", "[MASK]");
  test::write_file(folder / "model.gguf", test::word_piece_gguf(spec, /*old=*/true));
  test::expect_framed_cases(load_tokenizer(folder / "model.gguf"), each.at("cases"), "old GGUF");
}

TEST(WordPiece, IsTheSameFromVocabTxt) {
  for (const Kind& kind : kKinds) {
    const test::TemporaryFolder folder;
    const json each = tokenizer_named(kind.name);
    const TokenizerSpec spec = spec_with_roles(each, kind.pad, kind.mask);
    test::write_file(folder / "vocab.txt", test::vocabulary_text(spec));
    test::write_file(folder / "tokenizer_config.json",
                     test::word_piece_config(spec, kind.tokenizer_class));
    test::expect_framed_cases(load_tokenizer(folder.path()), each.at("cases"), kind.name);
    const test::TemporaryFolder copy;
    write_tokenizer_files(folder.path(), copy.path());
    test::expect_framed_cases(load_tokenizer(copy.path()), each.at("cases"),
                              std::string(kind.name) + ", copied");
  }
}

std::string fnv1a(const std::string& text) {
  std::uint64_t value = 0xcbf29ce484222325U;
  for (const char byte : text) value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  return fmt::format("{:016x}", value);
}

using Ranges = std::vector<std::pair<std::int32_t, std::int32_t>>;  // first and last

bool is_within(const Ranges& ranges, std::int32_t c) {
  return std::ranges::any_of(ranges, [c](const auto& r) { return c >= r.first && c <= r.second; });
}

std::string words_of(const std::string& text) {
  std::vector<std::string_view> words;
  split_bert_words(text, words);
  return fmt::format("{}", fmt::join(words, "|"));
}

std::string made_by(const std::string& rule, const std::string& text) {
  if (rule == "words") return words_of("a" + text + "b");
  WordPieceRules rules;
  rules.clean_text = rule == "clean_text";
  rules.handle_chinese_chars = rule == "handle_chinese_chars";
  rules.strip_accents = rule == "strip_accents";
  rules.lowercase = rule == "lowercase";
  return bert_normalized(text, rules);
}

struct Block {
  std::string made, unchanged;  // of all characters, separated by line feeds
};

Block block_of(const std::string& rule, std::int32_t first, const Ranges& excluded) {
  Block block;
  const char* separator = "";
  for (std::int32_t c = first; c < first + 0x1000; ++c) {
    if (is_within(excluded, c)) continue;
    std::string text;
    append_utf8(c, text);
    (block.made += separator) += made_by(rule, text);
    (block.unchanged += separator) += rule == "words" ? "a" + text + "b" : text;
    separator = "\n";
  }
  return block;
}

// The reference has, for each rule, a hash of what it makes of each block of 4096 characters, but
// not of the blocks that it leaves unchanged. Planes 3 to 13 contain only ideographs, which no rule
// changes, and nothing.
TEST(WordPiece, TreatsEachCharacterOfUnicodeAsHuggingFaceDoes) {
  const json file = reference("bert_characters.json");
  auto excluded = file.at("excluded").get<Ranges>();
  excluded.emplace_back(0xD800, 0xDFFF);
  for (const auto& [rule, blocks] : file.at("blocks").items()) {
    EXPECT_GT(blocks.size(), 0u);
    for (std::int32_t first = 0; first < 0x110000; first += 0x1000) {
      if (first >= 0x30000 && first < 0xE0000) continue;
      const Block block = block_of(rule, first, excluded);
      const std::string name = fmt::format("{:x}", first);
      const std::string expected =
          blocks.contains(name) ? blocks.at(name).get<std::string>() : fnv1a(block.unchanged);
      EXPECT_EQ(fnv1a(block.made), expected) << rule << " of the block at U+" << name;
    }
  }
}

Tokenizer uncased() {
  return tokenizer_from_json(tokenizer_named("bert, uncased").at("tokenizer").dump());
}

TEST(WordPiece, CutsALongTextButKeepsItsLastSpecialToken) {
  const Tokenizer tokenizer = uncased();
  const Ids all = tokenizer.encode("the the the the");
  const auto cls = tokenizer.bos().value(), sep = tokenizer.sep().value();
  ASSERT_GT(all.size(), 4u);
  const CutText four = tokenizer.encode_at_most("the the the the", 4);
  EXPECT_EQ(four.ids, (Ids{cls, all[1], all[2], sep}));
  EXPECT_EQ(four.cut, all.size() - 4);
  const CutText exact = tokenizer.encode_at_most("the the the the", all.size());
  EXPECT_EQ(exact.ids, all);
  EXPECT_EQ(exact.cut, 0u);
  const CutText plain = tokenizer.encode_at_most("the the the the", 1, test::without_bos());
  EXPECT_EQ(plain.ids, (Ids{all[1]}));
  CLORA_EXPECT_ERROR(tokenizer.encode_at_most("the", 2), ErrorCode::invalid_argument,
                     "must be allowed at least 3 tokens (2 of them special), got 2");
}

TEST(WordPiece, PutsTheSpecialTokensAroundATextAsTheModelOrTheCallerSays) {
  const Tokenizer tokenizer = uncased();
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_TRUE(tokenizer.adds_sep());
  EXPECT_EQ(tokenizer.encode(""), (Ids{*tokenizer.bos(), *tokenizer.sep()}));
  EncodeOptions options;
  options.continues = true;
  EXPECT_EQ(tokenizer.encode("", options), Ids{});
  options.add_bos = AddBos::yes;
  EXPECT_EQ(tokenizer.encode("", options), (Ids{*tokenizer.bos(), *tokenizer.sep()}));
  const Tokenizer unframed =
      tokenizer_from_json(tokenizer_named("bert, accents kept").at("tokenizer").dump());
  EXPECT_EQ(unframed.encode(""), Ids{});
}

TEST(WordPiece, RemovesBytesThatAreNotUtf8) {
  const Tokenizer tokenizer = uncased();
  EXPECT_EQ(tokenizer.encode("t\xFFhe\xC3"), tokenizer.encode("the"));
}

TEST(WordPiece, ConfigurationTakesPrecedenceOverTheNormaliser) {
  const std::string file = tokenizer_named("bert, uncased").at("tokenizer").dump();
  const auto rules = [&](const char* config) {
    return tokenizer_spec_from_json(file, config).word_piece;
  };
  EXPECT_TRUE(rules("{}").strip_accents);
  EXPECT_FALSE(rules(R"({"do_lower_case": false})").lowercase);
  EXPECT_FALSE(rules(R"({"do_lower_case": false})").strip_accents);
  EXPECT_TRUE(rules(R"({"do_lower_case": false, "strip_accents": true})").strip_accents);
  EXPECT_FALSE(rules(R"({"tokenize_chinese_chars": false})").handle_chinese_chars);
}

TEST(WordPiece, RefusesByNameWhatItDoesNotDo) {
  const auto refuses = [](const char* pointer, const char* value, const char* part,
                          ErrorCode code = ErrorCode::unsupported) {
    json file = tokenizer_named("bert, uncased").at("tokenizer");
    file[json::json_pointer(pointer)] = json::parse(value);
    SCOPED_TRACE(part);
    CLORA_EXPECT_ERROR(tokenizer_from_json(file.dump(), {}, "t.json"), code, part);
  };
  refuses("/normalizer", R"({"type": "Lowercase"})",
          "t.json: the normalizer 'Lowercase' is not supported for WordPiece; it must be "
          "BertNormalizer");
  refuses("/normalizer", "null", "the normalizer 'none'");
  refuses("/pre_tokenizer", R"({"type": "Whitespace"})", "the pre_tokenizer 'Whitespace'");
  refuses("/decoder", "null", "the decoder 'none'");
  refuses("/decoder/prefix", R"("@@")", "decoder.prefix must equal");
  refuses("/post_processor", R"({"type": "Other"})",
          "the post_processor 'Other' is not supported; supported: ByteLevel, TemplateProcessing, "
          "BertProcessing, RobertaProcessing");
  refuses("/post_processor/single/0", R"({"Sequence": {}})", "with at most one after it");
  const auto invalid = ErrorCode::invalid_file;
  refuses("/post_processor", R"({"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": 3})",
          "post_processor.sep must be an array", invalid);
  refuses("/post_processor",
          R"({"type": "BertProcessing", "cls": ["none", 2], "sep": ["none", 3]})",
          "'none' is not a token", invalid);
  refuses("/model/unk_token", "null", "needs an unknown token", invalid);
  refuses("/model/max_input_chars_per_word", "-1", "max_input_chars_per_word must be at least 0",
          invalid);
}

TEST(WordPiece, RefusesAVocabularyFileByNameWhereItsRulesAreOthers) {
  const test::TemporaryFolder folder;
  const auto refuses = [&](const char* config, ErrorCode code, const char* part) {
    test::write_file(folder / "tokenizer_config.json", config);
    CLORA_EXPECT_ERROR(load_tokenizer(folder.path()), code, part);
  };
  test::write_file(folder / "vocab.txt", "[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\na");
  refuses(R"({"tokenizer_class": "BertJapaneseTokenizer"})", ErrorCode::unsupported,
          "'BertJapaneseTokenizer' with vocab.txt is not supported");
  refuses(R"({"do_basic_tokenize": false})", ErrorCode::unsupported, "do_basic_tokenize");
  refuses(R"({"never_split": ["a"]})", ErrorCode::unsupported, "never_split");
  refuses(R"({"cls_token": "<s>"})", ErrorCode::invalid_file, "must contain cls_token");
  refuses(R"({"unk_token": "?"})", ErrorCode::invalid_file, "unk_token '?' is not a token");
  refuses(R"({"added_tokens_decoder": {"7": {"content": "x"}}})", ErrorCode::invalid_file,
          "added_tokens_decoder.7: \"x\" must be the token with this id in vocab.txt");
  refuses(R"({"added_tokens_decoder": {"x": {}}})", ErrorCode::invalid_file, "x must be");
  test::write_file(folder / "tokenizer_config.json", "{}");
  EXPECT_EQ(load_tokenizer(folder.path()).encode("A"), (Ids{2, 4, 3}));
  test::write_file(folder / "added_tokens.json", "{}");
  refuses("{}", ErrorCode::unsupported, "added_tokens.json is not supported");
}

TEST(WordPiece, HasTheNamesOfItsClassForSpecialTokensWithoutConfiguration) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n<s>\n</s>\n");
  EXPECT_EQ(load_tokenizer(folder.path()).encode("a"), (Ids{1, 3, 2}));
  test::write_file(folder / "tokenizer_config.json", R"({"tokenizer_class": "MPNetTokenizer"})");
  EXPECT_EQ(load_tokenizer(folder.path()).encode("a"), (Ids{4, 3, 5}));
}

TEST(WordPiece, MakesAWholeWordUnknownIfItsEndIsNoPiece) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "vocab.txt", "[UNK]\n[CLS]\n[SEP]\nlow\n##er\n");
  const Tokenizer tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer.encode("low lower lowest lowerx er", test::without_bos()),
            (Ids{3, 3, 4, 0, 0, 0}));
}

TEST(WordPiece, TakesTheTokensOfVocabTxtThatTheConfigurationAdds) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n<b>\n<e>\n");
  test::write_file(folder / "special_tokens_map.json",
                   R"({"cls_token": "<b>", "sep_token": {"content": "<e>"}})");
  EXPECT_EQ(load_tokenizer(folder.path()).encode("a"), (Ids{5, 4, 6}));
  test::write_file(folder / "tokenizer_config.json",
                   R"({"added_tokens_decoder": {"10": {"content": "<y>"}, "9": {"content": "<x>"},
                       "8": {"content": "w", "special": true}, "7": {"content": "v"},
                       "2": {"content": "[CLS]", "special": true}}})");
  EXPECT_EQ(load_tokenizer(folder.path()).encode("a<y>w"), (Ids{2, 4, 10, 1, 3}));
}

TEST(WordPiece, RefusesGgufWhosePiecesAreNotMarked) {
  const test::TemporaryFolder folder;
  TokenizerSpec spec = spec_with_roles(tokenizer_named("bert, uncased"), "[PAD]", "[MASK]");
  spec.types.assign(spec.tokens.size(), TokenType::control);  // leaves them as they are
  test::write_file(folder / "model.gguf", test::word_piece_gguf(spec));
  CLORA_EXPECT_ERROR(load_tokenizer(folder / "model.gguf"), ErrorCode::invalid_file,
                     "tokenizer.ggml.tokens must be pieces of words");
}

}  // namespace
}  // namespace clora
