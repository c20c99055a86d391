// The masks of grammars: against a check of every token, and what holds for states.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/support/grammar_texts.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora {
namespace {

using test::accepts;
using test::byte_tokenizer;
using test::has_bit;
using test::mask_of;
using test::schema_grammar;
using Ids = std::vector<std::int32_t>;

std::int32_t end_token() { return byte_tokenizer().eos().value(); }

std::int32_t token(std::string_view bytes) {
  for (std::int32_t id = 0; id < byte_tokenizer().vocabulary_size(); ++id) {
    if (byte_tokenizer().token_bytes(id) == bytes) return id;
  }
  ADD_FAILURE() << "no token " << bytes;
  return 0;
}

GrammarState state_after(const std::shared_ptr<const TokenGrammar>& grammar,
                         std::string_view text) {
  GrammarState state(grammar);
  for (const char c : text) state.accept(static_cast<unsigned char>(c));
  return state;
}

void expect_exact_mask(const GrammarState& state, const std::string& where) {
  const std::int32_t size = byte_tokenizer().vocabulary_size();
  const std::vector<std::uint32_t> mask = mask_of(state, size);
  for (std::int32_t id = 0; id < size; ++id) {
    EXPECT_EQ(has_bit(mask, id), state.allows(id))
        << "token " << id << " '" << byte_tokenizer().token_bytes(id) << "' after " << where;
    // allows() itself, byte by byte.
    GrammarState copy = state;
    bool follows = !byte_tokenizer().ends_generation(id);
    for (const char c : byte_tokenizer().token_bytes(id)) {
      const auto byte = static_cast<std::int32_t>(static_cast<unsigned char>(c));
      follows = follows && copy.allows(byte);
      if (follows) copy.accept(byte);
    }
    const bool ends = byte_tokenizer().ends_generation(id) && state.is_complete();
    EXPECT_EQ(state.allows(id), follows || ends) << id << " after " << where;
  }
}

struct Walked {
  const char* schema;
  const char* text;
};

TEST(GrammarMasks, AreExactAtEveryPlaceOfAText) {
  constexpr Walked kTexts[] = {
      {"{}", R"({"a": [1, -2.5e+3, "x\u00e9\n", true], "é€": {"b\\": null}, "😀": {}})"},
      {"{}", R"("\ud83d\ude00\ud83d\uDE00 a")"},
      {R"({"properties":{"a":{"type":"integer"},"ab":{"type":"string","maxLength":3},)"
       R"("value":{"type":"array","items":{"enum":["a","ab","abc",12,120]}}},)"
       R"("additionalProperties":{"type":"null"}})",
       R"({"a": 12, "ab": "é\n", "value": ["ab", 12, "abc"], "b": null})"},
      {R"({"type":"string","minLength":2,"maxLength":4})", R"("ab€x")"},
      {R"({"type":"string","pattern":"^(ab|é)+.?$"})", R"("abéab€")"},
      {R"({"type":"array","items":{"type":"number","minimum":0.5,"maximum":12.25},"maxItems":3})",
       "[0.50, 12.2, 7]"},
      {R"({"anyOf":[{"properties":{"a":{"const":1}},"required":["a"]},)"
       R"({"properties":{"a":{"const":12},"b":{"const":1}},"required":["a","b"]}]})",
       R"({"a": 12, "b": 1})"},
  };
  for (const Walked& each : kTexts) {
    const auto grammar = schema_grammar(each.schema);
    const std::string text = each.text;
    for (std::size_t at = 0; at <= text.size(); ++at) {
      const std::string before = text.substr(0, at);
      expect_exact_mask(state_after(grammar, before), before);
    }
    EXPECT_TRUE(accepts(grammar, text)) << text;
  }
}

// The masks that are kept do not know how deep they are used.
TEST(GrammarMasks, AreExactNearTheLimitOfNesting) {
  const auto grammar = TokenGrammar::any_json_object(test::byte_vocabulary());
  GrammarState state = state_after(grammar, R"({"a":)");
  int depth = 0;
  for (; state.allows('['); ++depth) state.accept('[');
  EXPECT_EQ(depth, 129);
  expect_exact_mask(state, "the innermost [");
  EXPECT_FALSE(state.allows('{'));
  for (const char c : std::string_view("1,")) state.accept(static_cast<unsigned char>(c));
  expect_exact_mask(state, "an element of the innermost array");
  test::RandomWriter writer(byte_tokenizer(), 1);
  const std::string rest = writer.finish(state);
  EXPECT_TRUE(state.is_complete()) << rest;
  GrammarState shallower =
      state_after(grammar, R"({"a":)" + std::string(static_cast<std::size_t>(depth) - 1, '['));
  expect_exact_mask(shallower, "the one before");
  shallower.accept('"');
  expect_exact_mask(shallower, "a string in it");
}

TEST(GrammarMasks, AllowOnlyTheEndAfterTheEnd) {
  const auto grammar = schema_grammar(R"({"type":"object"})");
  GrammarState state = state_after(grammar, "{}");
  EXPECT_TRUE(state.is_complete());
  EXPECT_TRUE(state.must_end());
  const auto mask = mask_of(state, byte_tokenizer().vocabulary_size());
  for (std::int32_t id = 0; id < byte_tokenizer().vocabulary_size(); ++id)
    EXPECT_EQ(has_bit(mask, id), id == end_token()) << id;
  state.accept(end_token());
  EXPECT_TRUE(state.must_end());
  CLORA_EXPECT_ERROR(state.accept(' '), ErrorCode::invalid_argument, "may not come next");
}

TEST(GrammarMasks, LetANumberEndOrGoOn) {
  GrammarState state(schema_grammar(R"({"type":"integer"})"));
  EXPECT_FALSE(state.is_complete());
  EXPECT_FALSE(state.allows(end_token()));
  CLORA_EXPECT_ERROR(state.accept(end_token()), ErrorCode::invalid_argument, "must be complete");
  state.accept(token("12"));
  EXPECT_TRUE(state.is_complete());
  EXPECT_FALSE(state.must_end());
  EXPECT_TRUE(state.allows(end_token()));
  EXPECT_TRUE(state.allows('0'));
}

TEST(GrammarMasks, TakeTheEndTokensOfTheRequest) {
  const auto grammar = schema_grammar(R"({"const":12})");
  GrammarState state(grammar, Ids{token("e+"), '3'});
  EXPECT_FALSE(state.allows('3'));
  state.accept(token("12"));
  EXPECT_FALSE(state.allows(end_token()));
  EXPECT_TRUE(state.allows(token("e+")));
  EXPECT_TRUE(has_bit(mask_of(state, byte_tokenizer().vocabulary_size()), '3'));
  GrammarState without(grammar, Ids{});
  without.accept(token("12"));
  EXPECT_TRUE(without.must_end());
  for (const std::uint32_t word : mask_of(without, byte_tokenizer().vocabulary_size()))
    EXPECT_EQ(word, 0u);
  CLORA_EXPECT_ERROR(GrammarState(grammar, Ids{-1}), ErrorCode::invalid_argument, "end token");
  CLORA_EXPECT_ERROR(GrammarState(nullptr), ErrorCode::invalid_argument, "got none");
}

TEST(GrammarMasks, ClearTheBitsBeyondTheVocabulary) {
  const GrammarState state(schema_grammar("{}"));
  std::vector<std::uint32_t> mask(40, ~0U);
  state.write_mask(mask);
  const std::int32_t size = byte_tokenizer().vocabulary_size();
  for (std::int32_t id = size; id < 40 * 32; ++id) EXPECT_FALSE(has_bit(mask, id));
  CLORA_EXPECT_ERROR(state.write_mask(std::span(mask).first(3)), ErrorCode::invalid_argument,
                     "words");
}

TEST(GrammarMasks, RefuseATokenAndStayAsTheyWere) {
  GrammarState state = state_after(schema_grammar(R"({"const":"ab"})"), "\"a");
  for (const std::int32_t id : {-1, 100'000, std::int32_t{'x'}, token("e\""), end_token()})
    EXPECT_NE(test::caught([&] { state.accept(id); }), std::nullopt) << id;
  state.accept('b');
  state.accept('"');
  EXPECT_TRUE(state.must_end());
}

TEST(GrammarMasks, ReturnToACopyOfTheState) {
  const auto grammar = schema_grammar(R"({"type":"array","items":{"type":"array"}})");
  GrammarState state = state_after(grammar, "[[1,[");
  const GrammarState before = state;
  const auto mask = mask_of(before, byte_tokenizer().vocabulary_size());
  for (const std::int32_t id : {token("[["), token("]]"), std::int32_t{']'}}) state.accept(id);
  EXPECT_NE(mask_of(state, byte_tokenizer().vocabulary_size()), mask);
  state = before;
  EXPECT_EQ(mask_of(state, byte_tokenizer().vocabulary_size()), mask);
  EXPECT_TRUE(state.allows(token("]]")));
}

TEST(GrammarMasks, LeaveOutControlTokens) {
  TokenizerSpec spec = test::byte_level_spec();
  const Tokenizer tokenizer(spec);
  const GrammarVocabulary vocabulary(tokenizer);
  GrammarState state(TokenGrammar::from_json_schema(R"({"type":"string"})", vocabulary));
  state.accept(tokenizer.id_of("\"").value());
  EXPECT_FALSE(state.allows(tokenizer.id_of("<|im_start|>").value()));
  EXPECT_FALSE(state.allows(tokenizer.id_of("<|im_end|>").value()));
  EXPECT_TRUE(state.allows(tokenizer.id_of("<tool>").value()));
  state.accept(tokenizer.id_of("\"").value());
  EXPECT_TRUE(state.allows(tokenizer.id_of("<|im_end|>").value()));
  EXPECT_FALSE(state.allows(tokenizer.id_of("<|im_start|>").value()));
}

TEST(GrammarMasks, NeedATokenForEachByte) {
  TokenizerSpec spec;
  spec.source = "letters";
  spec.tokens = {"a", "b", "\"", "<end>"};
  spec.types = {TokenType::normal, TokenType::normal, TokenType::normal, TokenType::control};
  spec.eos = 3;
  const GrammarVocabulary vocabulary{Tokenizer(spec)};
  GrammarState state(TokenGrammar::from_json_schema(R"({"const":"ac"})", vocabulary));
  state.accept(2);
  state.accept(0);
  CLORA_EXPECT_ERROR(mask_of(state, 4), ErrorCode::unsupported, "a token for each single byte");
}

TEST(GrammarMasks, AreTheSameInManyThreads) {
  const auto grammar = schema_grammar("{}");
  const std::string text = R"({"a": ["x\n", 1.5, {"é": null}]})";
  std::vector<std::vector<std::uint32_t>> expected(text.size() + 1);
  const auto masks = [&](std::vector<std::vector<std::uint32_t>>& all,
                         const std::shared_ptr<const TokenGrammar>& of) {
    for (std::size_t at = 0; at <= text.size(); ++at)
      all[at] = mask_of(state_after(of, text.substr(0, at)), byte_tokenizer().vocabulary_size());
  };
  masks(expected, schema_grammar("{}"));
  std::vector<std::vector<std::vector<std::uint32_t>>> found(4, expected);
  std::vector<std::thread> threads;
  for (auto& each : found) threads.emplace_back([&] { masks(each, grammar); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : found) EXPECT_EQ(each, expected);
}

}  // namespace
}  // namespace clora
