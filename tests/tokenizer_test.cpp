#include "model/tokenizer.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "model/symbol_merging.hpp"
#include "model/tokenizer_files.hpp"
#include "model/tokenizer_json.hpp"
#include "model/utf8.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora {
namespace {

using test::byte_level_spec;
using test::byte_symbol;
using Ids = std::vector<std::int32_t>;

Ids ids_of(const Tokenizer& tokenizer, std::initializer_list<const char*> texts) {
  Ids ids;
  for (const char* text : texts) ids.push_back(tokenizer.id_of(text).value_or(-1));
  return ids;
}

EncodeOptions without_bos(bool parse_special = false) {
  EncodeOptions options;
  options.parse_special = parse_special;
  options.add_bos = AddBos::no;
  return options;
}

// Characters that tokenizers tend to get wrong, and plain text between them.
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
  // Pairs of small ids merge to their sum, with priorities that repeat so that ties occur.
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

TEST(Tokenizer, CutsControlTokensOutOnlyWhereTheyAreParsed) {
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
  const std::string spaces(100000, ' ');  // deep for a matcher that recurses
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

TEST(Tokenizer, KnowsTheTokensThatEndAnAnswer) {
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
  refuses([](TokenizerSpec& s) { s.types.pop_back(); }, "as many types");
  refuses([](TokenizerSpec& s) { s.merges.push_back({"q", "zz"}); }, "merge 8");
  refuses([](TokenizerSpec& s) { s.merges.push_back({"q", "z"}); }, "merge 8");
  refuses([](TokenizerSpec& s) { s.eos = 5000; }, "eos");
  refuses([](TokenizerSpec& s) { s.algorithm = TokenizerAlgorithm::sentencepiece_scores; },
          "as many scores");
}

TEST(Tokenizer, RefusesAnUnknownPreTokeniserByName) {
  CLORA_EXPECT_ERROR(split_patterns_of("tekken"), ErrorCode::unsupported, "'tekken'");
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

TEST(StreamDecoder, YieldsWholeCharactersOnly) {
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

// The smallest file of each kind, to be changed by a test.
nlohmann::json small_json() {
  return nlohmann::json::parse(R"({
    "added_tokens": [{"id": 5, "content": "<s>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "\u0120": 3, "\u0120a": 4},
              "merges": ["a b", ["\u0120", "a"]]}})");
}

TEST(TokenizerJson, ReadsMergesInBothForms) {
  const Tokenizer tokenizer = tokenizer_from_json(small_json().dump());
  EXPECT_EQ(tokenizer.encode("ab ab a"), (Ids{2, 3, 2, 4}));
  EXPECT_EQ(tokenizer.vocabulary_size(), 6);
}

TEST(TokenizerJson, TakesBosFromTheTemplateAndNamesFromTheConfiguration) {
  nlohmann::json file = small_json();
  file["post_processor"] = nlohmann::json::parse(
      R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]})");
  const Tokenizer tokenizer = tokenizer_from_json(
      file.dump(), R"({"eos_token": {"content": "<s>"}, "chat_template": "{{ x }}"})");
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.bos(), 5);
  EXPECT_EQ(tokenizer.eos(), 5);
  EXPECT_EQ(tokenizer.chat_template(), "{{ x }}");
}

TEST(TokenizerJson, RefusesByNameWhatItDoesNotDo) {
  const auto refuses = [](const char* pointer, const char* value, const char* part) {
    nlohmann::json file = small_json();
    file[nlohmann::json::json_pointer(pointer)] = nlohmann::json::parse(value);
    CLORA_EXPECT_ERROR(tokenizer_from_json(file.dump()), ErrorCode::unsupported, part);
  };
  refuses("/model/type", R"("Unigram")", "Unigram");
  refuses("/normalizer", R"({"type": "Lowercase"})", "Lowercase");
  refuses("/pre_tokenizer", R"({"type": "BertPreTokenizer"})", "BertPreTokenizer");
  refuses("/pre_tokenizer",
          R"({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Removed"})", "Removed");
  refuses("/pre_tokenizer", "null", "neither byte-level");
  refuses("/added_tokens/0/lstrip", "true", "lstrip");
  refuses("/post_processor", R"({"type": "BertProcessing"})", "BertProcessing");
}

TEST(TokenizerJson, SaysWhatIsWrongWithAFileThatIsNone) {
  for (const char* text : {"", "{", "[]", "{}", R"({"model": 3})"}) {
    CLORA_EXPECT_ERROR(tokenizer_from_json(text, {}, "t.json"), ErrorCode::invalid_file, "t.json");
  }
  const auto refuses = [](const char* pointer, const char* value, const char* part) {
    nlohmann::json file = small_json();
    file[nlohmann::json::json_pointer(pointer)] = nlohmann::json::parse(value);
    CLORA_EXPECT_ERROR(tokenizer_from_json(file.dump()), ErrorCode::invalid_file, part);
  };
  refuses("/model/vocab", "{}", "merge 0");
  refuses("/model/vocab/a", "-1", "id below");
  refuses("/model/vocab/a", "\"x\"", "not the JSON");
  refuses("/model/merges/0", "\"ab\"", "two tokens");
  refuses("/model/merges/0", "3", "not the JSON");
  refuses("/model/unk_token", "\"none\"", "unk_token");
}

// What is written must be read as the same tokenizer.
void expect_same_after_writing(const std::filesystem::path& model, const std::string& text) {
  const test::TemporaryFolder folder;
  write_tokenizer_files(model, folder.path());
  const Tokenizer before = load_tokenizer(model), after = load_tokenizer(folder.path());
  EXPECT_EQ(after.vocabulary_size(), before.vocabulary_size());
  EXPECT_EQ(after.bos(), before.bos());
  EXPECT_EQ(after.eos(), before.eos());
  EXPECT_EQ(after.chat_template(), before.chat_template());
  EXPECT_EQ(after.end_of_generation(), before.end_of_generation());
  EncodeOptions options;
  options.parse_special = true;
  EXPECT_EQ(after.encode(text, options), before.encode(text, options));
}

TEST(TokenizerFiles, WriteATokenizerOfGgufAsAFolder) {
  const std::string text =
      "<|im_start|>user\nIt's 1234 days,  Lily said.\n\n<|im_end|>\u6f22 caf\u00e9 <s> </s>a";
  CLORA_FILE_OR_SKIP(stories, test::test_data("models/stories260k/stories260K.gguf"), "the model");
  expect_same_after_writing(stories, text);
  CLORA_FILE_OR_SKIP(folder, test::test_data("models/tinystories-656k"), "the model");
  expect_same_after_writing(folder, text);
  expect_same_after_writing(folder / "gguf-derived/TinyStories-656K-F32.gguf", text);
  CLORA_FILE_OR_SKIP(model, test::cached_model("SmolLM2-135M-Instruct.Q4_1.gguf"),
                     "the demo model");
  expect_same_after_writing(model, text);
}

TEST(TokenizerFiles, RefuseAFolderWithoutTokenizer) {
  const test::TemporaryFolder folder;
  CLORA_EXPECT_ERROR(load_tokenizer(folder.path()), ErrorCode::not_found, "tokenizer.json");
  CLORA_EXPECT_ERROR(load_tokenizer(folder / "none.gguf"), ErrorCode::not_found, "none.gguf");
}

// llama.cpp's vectors: texts between marker lines, ids a line each.
void expect_vectors(const char* folder, const std::filesystem::path& inputs,
                    const std::filesystem::path& outputs) {
  CLORA_FILE_OR_SKIP(json, test::test_data(std::string("tokenizers/") + folder + "/tokenizer.json"),
                     folder);
  const Tokenizer tokenizer = tokenizer_from_json(test::read_whole_file(json));
  const std::string marker = "\n__ggml_vocab_test__\n";
  const std::string texts = test::read_whole_file(inputs);
  std::istringstream lines(test::read_whole_file(outputs));
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

TEST(Tokenizer, AgreesWithTheVectorsOfQwen2) {
  CLORA_FILE_OR_SKIP(inputs, test::test_data("tokenizers/ggml-vocab-qwen2.gguf.inp"), "vectors");
  CLORA_FILE_OR_SKIP(outputs, test::test_data("tokenizers/ggml-vocab-qwen2.gguf.out"), "vectors");
  expect_vectors("qwen2.5", inputs, outputs);
}

TEST(Tokenizer, AgreesWithTheVectorsOfGpt2) {
  CLORA_FILE_OR_SKIP(inputs, test::test_data("tokenizers/ggml-vocab-gpt-2.gguf.inp"), "vectors");
  CLORA_FILE_OR_SKIP(outputs, test::test_data("tokenizers/ggml-vocab-gpt-2.gguf.out"), "vectors");
  expect_vectors("gpt2", inputs, outputs);
}

TEST(Tokenizer, AgreesWithTheReferenceOfSmolLm2) {
  CLORA_FILE_OR_SKIP(model, test::cached_model("SmolLM2-135M-Instruct.Q4_1.gguf"),
                     "the demo model");
  CLORA_FILE_OR_SKIP(path, test::test_data("models/reference/SmolLM2-135M-Instruct.Q4_1.json"),
                     "the reference");
  const Tokenizer tokenizer = load_tokenizer(model);
  const nlohmann::json reference = nlohmann::json::parse(test::read_whole_file(path));
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

TEST(Tokenizer, AgreesWithTheReferenceOfTinyStories656K) {
  CLORA_FILE_OR_SKIP(folder, test::test_data("models/tinystories-656k"), "the model");
  CLORA_FILE_OR_SKIP(path, test::test_data("models/reference/TinyStories-656K.json"),
                     "the reference");
  const nlohmann::json reference = nlohmann::json::parse(test::read_whole_file(path));
  const std::string prompt = reference.at("prompt").get<std::string>();
  const Ids expected = reference.at("prompt_ids").get<Ids>();
  const Tokenizer from_json = load_tokenizer(folder);
  const Tokenizer from_gguf = load_tokenizer(folder / "gguf-derived/TinyStories-656K-F32.gguf");
  EXPECT_EQ(from_json.encode(prompt), expected);
  EXPECT_EQ(from_gguf.encode(prompt), expected);
  EXPECT_EQ(from_json.decode(expected), prompt);
  EXPECT_TRUE(from_json.ends_generation(2));
  // Characters that the vocabulary does not hold become one unknown token a run.
  EXPECT_EQ(from_json.encode("Tim 漢字 said", without_bos()),
            from_gguf.encode("Tim 漢字 said", without_bos()));
}

// Ids by the python package sentencepiece from tok512.model.
TEST(Tokenizer, AgreesWithSentencePieceOnStories260K) {
  CLORA_FILE_OR_SKIP(model, test::test_data("models/stories260k/stories260K.gguf"), "the model");
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

TEST(Tokenizer, ContinuesATextWithoutADummySpace) {
  CLORA_FILE_OR_SKIP(model, test::test_data("models/stories260k/stories260K.gguf"), "the model");
  const Tokenizer tokenizer = load_tokenizer(model);
  EncodeOptions behind;
  behind.continues = true;
  const Ids ids = tokenizer.encode(" a", behind);
  EXPECT_EQ(ids, ids_of(tokenizer, {"\u2581a"}));
  EXPECT_EQ(tokenizer.decode(ids, {.continues = true}), " a");
  EXPECT_EQ(tokenizer.decode(ids), "a");
}

}  // namespace
}  // namespace clora
