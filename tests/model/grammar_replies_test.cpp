// Replies that are chosen from masks, and JSON texts in the tokens of real tokenizers.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clora/model/text/tokenizer_files.hpp"
#include "tests/support/grammar_texts.hpp"
#include "tests/support/schema_validator.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::RandomWriter;

constexpr const char* kPerson =
    R"({"type":"object","title":"Person","properties":{"name":{"type":"string","minLength":1},)"
    R"("age":{"type":"integer","minimum":0,"maximum":150},"role":{"enum":["admin","adult","user"]},)"
    R"("tags":{"type":"array","items":{"type":"string","maxLength":12},"maxItems":4},"born":)"
    R"({"type":"string","format":"date"},"score":{"type":"number","minimum":-1.5,"maximum":99.75}},)"
    R"("required":["name","role","born"],"additionalProperties":false})";

constexpr const char* kTree =
    R"({"$defs":{"node":{"properties":{"value":{"type":["number","null"]},"children":{"items":)"
    R"({"$ref":"#/$defs/node"}}},"required":["value"]}},"$ref":"#/$defs/node"})";

constexpr const char* kMixed =
    R"({"type":"array","minItems":1,"items":{"anyOf":[{"properties":{"kind":{"const":"circle"},)"
    R"("radius":{"type":"number","exclusiveMinimum":0}},"required":["kind","radius"]},)"
    R"({"properties":{"kind":{"const":"code"},"id":{"pattern":"^[A-Z]{2}-[0-9]+$"},)"
    R"("at":{"format":"date-time"},"ip":{"format":"ipv4"}},"required":["kind","id"],)"
    R"("additionalProperties":{"type":"boolean"}},{"prefixItems":[{"type":"integer"},)"
    R"({"type":"string"}],"minItems":2,"items":{"type":"null"},"maxItems":4}]}})";

constexpr const char* kAny = R"({"type":"object"})";

constexpr const char* kSchemas[] = {kPerson, kTree, kMixed, kAny};

void expect_valid(const std::string& text, const json& schema, const std::string& where) {
  ASSERT_FALSE(text.empty()) << where << ": the reply has no end";
  const json value = json::parse(text, nullptr, false);
  ASSERT_FALSE(value.is_discarded()) << where << ": not JSON: " << text;
  EXPECT_EQ(test::schema_mismatch(value, schema), "") << where << ": " << text;
}

void expect_valid_replies(const Tokenizer& tokenizer, int replies, int tokens) {
  const GrammarVocabulary vocabulary(tokenizer);
  for (const char* schema : kSchemas) {
    const GrammarState start(TokenGrammar::from_json_schema(schema, vocabulary));
    for (int i = 0; i < replies; ++i) {
      RandomWriter writer(tokenizer, static_cast<std::uint32_t>(i));
      expect_valid(writer.write(start, tokens), json::parse(schema), "seed " + std::to_string(i));
    }
  }
}

// The text is allowed token by token, and complete at its end.
void expect_text(const Tokenizer& tokenizer, GrammarState state, const std::string& text) {
  EncodeOptions options = test::without_bos();
  options.continues = true;
  const std::vector<std::int32_t> ids = tokenizer.encode(text, options);
  ASSERT_EQ(tokenizer.decode(ids, {.continues = true}), text);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_FALSE(state.must_end()) << text;
    const auto mask = test::mask_of(state, tokenizer.vocabulary_size());
    ASSERT_TRUE(test::has_bit(mask, ids[i]))
        << "token " << i << " '" << tokenizer.token_bytes(ids[i]) << "' of " << text;
    state.accept(ids[i]);
  }
  EXPECT_TRUE(state.is_complete()) << text;
  const auto mask = test::mask_of(state, tokenizer.vocabulary_size());
  for (const std::int32_t id : tokenizer.end_of_generation()) EXPECT_TRUE(test::has_bit(mask, id));
}

void expect_known_texts(const Tokenizer& tokenizer) {
  const GrammarVocabulary vocabulary(tokenizer);
  const auto grammar_of = [&](const char* schema) {
    return GrammarState(TokenGrammar::from_json_schema(schema, vocabulary));
  };
  const std::string name = json("Zoë \"Z\" O'Neil 😀\n日本語").dump();
  const std::string ordered = R"({"name": )" + name +
                              R"(, "age": 42, "role": "adult", "tags": ["a", )" +
                              R"("naïve café"], "born": "2000-02-29", "score": 12.5})";
  expect_text(tokenizer, grammar_of(kPerson), ordered);
  const json nested = json::parse(
      R"({"a": [1, -2.5, 1e10, true, false, null, [], {}, {"b": {"c": ["x\\y", "\u0001", ""]}}]})");
  for (const int indent : {-1, 1, 2, 4}) {
    expect_text(tokenizer, grammar_of(kAny), nested.dump(indent));
    expect_text(tokenizer, GrammarState(TokenGrammar::any_json_object(vocabulary)),
                nested.dump(indent));
    const auto tree = nlohmann::ordered_json::parse(
        R"({"value": 2.5, "children": [{"value": 1}, {"value": null}]})");
    expect_text(tokenizer, grammar_of(kTree), tree.dump(indent));
  }
}

TEST(GrammarReplies, AreValidWithATokenForEachByte) {
  expect_valid_replies(test::byte_tokenizer(), 60, 60);
}

TEST(GrammarReplies, AreValidWithSentencePiece) {
  CLORA_REQUIRE_TEST_DATA(path, "models/stories260k/stories260K.gguf");
  expect_valid_replies(load_tokenizer(path), 25, 40);
}

TEST(GrammarReplies, AreValidWithTheVocabularyOfGpt2) {
  CLORA_REQUIRE_TEST_DATA(path, "tokenizers/gpt2");
  expect_valid_replies(load_tokenizer(path), 4, 30);
}

TEST(GrammarReplies, AreValidWithTheVocabularyOfQwen) {
  CLORA_REQUIRE_TEST_DATA(path, "tokenizers/qwen2.5");
  expect_valid_replies(load_tokenizer(path), 2, 25);
}

TEST(GrammarReplies, MayBeAnyJsonObject) {
  const Tokenizer& tokenizer = test::byte_tokenizer();
  const GrammarState start(TokenGrammar::any_json_object(test::byte_vocabulary()));
  for (std::uint32_t seed = 0; seed < 100; ++seed)
    expect_valid(RandomWriter(tokenizer, seed).write(start, 50), json::parse(kAny), "any object");
}

TEST(GrammarReplies, MayHaveTheTokensThatTheTokenizerGivesThem) {
  CLORA_REQUIRE_TEST_DATA(stories, "models/stories260k/stories260K.gguf");
  CLORA_REQUIRE_TEST_DATA(gpt2, "tokenizers/gpt2");
  CLORA_REQUIRE_TEST_DATA(qwen, "tokenizers/qwen2.5");
  for (const auto& path : {stories, gpt2, qwen}) {
    SCOPED_TRACE(path.string());
    expect_known_texts(load_tokenizer(path));
  }
  expect_known_texts(test::byte_tokenizer());
}

// Each byte of a text is replaced by every other one. What is refused is refused at that byte; what
// is accepted can be finished to a valid value.
TEST(GrammarReplies, AreRefusedAtTheFirstWrongByte) {
  const std::string text = R"({"name":"Zoë","role":"adult","tags":["é"],"born":"2000-02-29"})";
  const auto grammar = test::schema_grammar(kPerson);
  const json schema = json::parse(kPerson);
  std::size_t refused = 0, accepted = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      GrammarState state(grammar);
      for (std::size_t i = 0; i < at; ++i) state.accept(static_cast<unsigned char>(text[i]));
      if (!state.allows(byte)) {
        ++refused;
        continue;
      }
      state.accept(byte);
      ++accepted;
      if (accepted % 7 != 0) continue;
      RandomWriter writer(test::byte_tokenizer(), static_cast<std::uint32_t>(at));
      const std::string begin = text.substr(0, at) + static_cast<char>(byte);
      expect_valid(begin + writer.finish(state), schema, begin);
    }
  }
  EXPECT_GT(refused, 10'000u);
  EXPECT_GT(accepted, 1'000u);
}

TEST(GrammarReplies, AllowNoOtherByteInAConstant) {
  const std::string text = R"({"a":[1,"é\n"],"b":null})";
  const auto grammar = test::schema_grammar(R"({"const":{"a":[1,"é\n"],"b":null}})");
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool after_gap = at > 0 && std::string("{[,").find(text[at - 1]) != std::string::npos;
    const bool before_gap = text[at] == ']' || text[at] == '}';
    const bool after_colon = at > 0 && text[at - 1] == ':';
    for (int byte = 0; byte < 256; ++byte) {
      std::string corrupt = text;
      corrupt[at] = static_cast<char>(byte);
      const bool is_space = (byte == ' ' && (after_gap || before_gap || after_colon)) ||
                            (byte == '\n' && (after_gap || before_gap));
      const std::size_t expected = corrupt == text ? text.size() : at + (is_space ? 1 : 0);
      if (is_space && corrupt != text) {
        EXPECT_GT(test::accepted_bytes(grammar, corrupt), at) << at << " " << byte;
      } else {
        EXPECT_EQ(test::accepted_bytes(grammar, corrupt), expected) << at << " " << byte;
      }
    }
  }
}

}  // namespace
}  // namespace clora
