#include "model/text/tokenizer_json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/text/pre_tokenizers.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using namespace nlohmann::literals;
using Ids = std::vector<std::int32_t>;

// The smallest file of each kind, which a test changes.
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

TEST(TokenizerJson, TakesTheTemplateForToolsFromAListOfNamedOnes) {
  const auto read = [](const char* config) {
    return tokenizer_from_json(small_json().dump(), config);
  };
  const Tokenizer both = read(R"({"chat_template": [{"name": "rag", "template": "r"},
      {"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})");
  EXPECT_EQ(both.chat_template(), "d");
  EXPECT_EQ(both.tool_chat_template(), "t");
  EXPECT_EQ(read(R"({"chat_template": "{{ x }}"})").tool_chat_template(), "");
}

// As gpt-4o's and Gemma's files write them.
TEST(TokenizerJson, TakesASplitThatDropsGapsIfItLeavesNone) {
  nlohmann::json file = small_json(), split = nlohmann::json::parse(R"({"type": "Split",
      "behavior": "Removed", "invert": true})");
  split["pattern"] = {{"Regex", pre_tokenizer_of("gpt-4o").patterns.front()}};
  const auto with = [&] {
    file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, R"({"type":
        "ByteLevel", "use_regex": false, "add_prefix_space": false})"_json}}};
    return tokenizer_from_json(file.dump());
  };
  EXPECT_EQ(with().encode("ab a"), (Ids{2, 4}));
  split["pattern"]["Regex"] = "a";
  CLORA_EXPECT_ERROR(with(), ErrorCode::unsupported, "must be a Regex with behavior Isolated");
}

TEST(TokenizerJson, TakesASplitAtSpacesIfNoneAreLeft) {
  nlohmann::json file = small_json();
  file["pre_tokenizer"] = nlohmann::json::parse(
      R"({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious"})");
  CLORA_EXPECT_ERROR(tokenizer_from_json(file.dump()), ErrorCode::unsupported,
                     "a pattern other than a Regex");
  file["normalizer"] = nlohmann::json::parse(
      R"({"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"})");
  file["model"]["vocab"] = {{"a", 0}, {"b", 1}, {"\u2581", 2}, {"\u2581a", 3}};
  file["model"]["merges"] = {"\u2581 a"};
  EXPECT_EQ(tokenizer_from_json(file.dump()).encode("a a b"), (Ids{0, 3, 2, 1}));
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
  refuses("/pre_tokenizer", "null", "this one is neither");
  refuses("/model/dropout", "0.1", "model.dropout");
  refuses("/post_processor", R"({"type": "BertProcessing"})", "BertProcessing");
  refuses("/post_processor",
          R"({"type": "TemplateProcessing", "single": [{"Sequence": {}}, {"SpecialToken": {}}]})",
          "must be one special token and the text");
}

TEST(TokenizerJson, NamesWhatIsSupportedAndTheUnsupportedPart) {
  const auto refuses = [](const char* pointer, const char* value, const char* part) {
    nlohmann::json file = small_json();
    file[nlohmann::json::json_pointer(pointer)] = nlohmann::json::parse(value);
    CLORA_EXPECT_ERROR(tokenizer_from_json(file.dump(), {}, "t.json"), ErrorCode::unsupported,
                       part);
  };
  refuses("/normalizer",
          R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "NFKC"}]})",
          "t.json: normalizer.normalizers[1]: the normalizer 'NFKC' is not supported; "
          "supported: NFC, ");
  refuses("/pre_tokenizer", R"({"type": "Whitespace"})",
          "the pre_tokenizer 'Whitespace' is not supported; supported: ByteLevel, ");
  refuses("/model/type", R"("Unigram")", "'Unigram' is not supported; it must be BPE or WordPiece");
}

TEST(TokenizerJson, BoundsItsTableByTheNumberOfTokens) {
  nlohmann::json file = small_json();
  file["added_tokens"][0]["id"] = (1 << 24) - 1;
  CLORA_EXPECT_ERROR(tokenizer_from_json(file.dump()), ErrorCode::invalid_file,
                     "the id of token \"<s>\" must be an integer from 0 to 65547");
  file["added_tokens"][0]["id"] = 65547;
  EXPECT_EQ(tokenizer_from_json(file.dump()).vocabulary_size(), 65548);
  for (const char* id : {"-1", "1.5", "\"5\"", "18446744073709551615", "null"}) {
    file["added_tokens"][0]["id"] = nlohmann::json::parse(id);
    CLORA_EXPECT_ERROR(tokenizer_from_json(file.dump()), ErrorCode::invalid_file, id);
  }
}

TEST(TokenizerJson, NamesTheFileAtFaultInItsOwnWords) {
  const std::string deep = std::string(50000, '[') + std::string(50000, ']');
  CLORA_EXPECT_ERROR(tokenizer_from_json(deep, {}, "m/tokenizer.json"), ErrorCode::invalid_file,
                     "m/tokenizer.json: line 1, column 65: arrays and objects must be nested");
  CLORA_EXPECT_ERROR(tokenizer_from_json(small_json().dump(), deep, "m/tokenizer.json"),
                     ErrorCode::invalid_file, "m/tokenizer_config.json: line 1, column 65");
  CLORA_EXPECT_ERROR(tokenizer_from_json(small_json().dump(), "{\"bos_token\": 3}"),
                     ErrorCode::invalid_file, "tokenizer_config.json: bos_token must be");
}

TEST(TokenizerJson, NamesTheFaultOfAnInvalidFile) {
  for (const char* text : {"", "{", "[]", "{}", R"({"model": 3})"}) {
    CLORA_EXPECT_ERROR(tokenizer_from_json(text, {}, "t.json"), ErrorCode::invalid_file, "t.json");
  }
  const auto refuses = [](const char* pointer, const char* value, const char* part) {
    nlohmann::json file = small_json();
    file[nlohmann::json::json_pointer(pointer)] = nlohmann::json::parse(value);
    CLORA_EXPECT_ERROR(tokenizer_from_json(file.dump()), ErrorCode::invalid_file, part);
  };
  refuses("/model/vocab", "{}", "merge 0");
  refuses("/model/vocab/a", "-1", "integer from 0");
  refuses("/model/vocab/a", "\"x\"", "integer from 0");
  refuses("/model/merges/0", "\"ab\"", "two tokens");
  refuses("/model/merges/0", "3", "merges[0] must be two tokens, got 3");
  refuses("/model/unk_token", "\"none\"", "unk_token");
}

}  // namespace
}  // namespace clora
