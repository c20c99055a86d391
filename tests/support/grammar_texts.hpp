// Texts and grammars, for tests: which texts a grammar accepts, and texts that are written by
// choosing among the tokens that its masks allow.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/generation/grammar/token_grammar.hpp"
#include "clora/model/text/tokenizer.hpp"

namespace clora::test {

// Every byte is a token, with some tokens of several bytes that break JSON in odd places: parts of
// characters, of escapes and of numbers, several brackets, quotes with text on both sides.
const Tokenizer& byte_tokenizer();
const GrammarVocabulary& byte_vocabulary();

// Of byte_vocabulary().
std::shared_ptr<const TokenGrammar> schema_grammar(std::string_view schema);

// The number of bytes of the text that the grammar accepts, from the first on.
std::size_t accepted_bytes(const std::shared_ptr<const TokenGrammar>& grammar,
                           std::string_view text);
// Whether it accepts all of the text, and nothing is missing.
bool accepts(const std::shared_ptr<const TokenGrammar>& grammar, std::string_view text);

std::vector<std::uint32_t> mask_of(const GrammarState& state, std::int32_t vocabulary_size);
bool has_bit(const std::vector<std::uint32_t>& mask, std::int32_t id);

// A reply by a model that takes any of the allowed tokens, more often brackets and quotes; after
// `tokens` of them it takes what ends the reply soonest. Empty if it does not come to an end.
class RandomWriter {
 public:
  RandomWriter(const Tokenizer& tokenizer, std::uint32_t seed)
      : tokenizer_(tokenizer), random_(seed) {}

  std::string write(GrammarState state, int tokens);
  // From a state inside of a reply on: only what ends it.
  std::string finish(GrammarState& state);

 private:
  std::int32_t any_of(const std::vector<std::int32_t>& ids) { return ids[random_() % ids.size()]; }
  std::vector<std::int32_t> allowed(const GrammarState& state) const;
  std::int32_t next(const GrammarState& state);
  std::int32_t next_to_finish(const GrammarState& state);

  const Tokenizer& tokenizer_;
  std::mt19937 random_;
};

}  // namespace clora::test
