#include "clora/model/generation/grammar/token_grammar.hpp"

#include "model/generation/grammar/compiled_grammar.hpp"
#include "model/generation/grammar/gbnf.hpp"
#include "model/generation/grammar/json_rules.hpp"
#include "model/generation/grammar/schema_rules.hpp"

namespace clora {

TokenGrammar::TokenGrammar(std::unique_ptr<grammar::CompiledGrammar> compiled)
    : compiled_(std::move(compiled)) {}
TokenGrammar::~TokenGrammar() = default;

const GrammarVocabulary& TokenGrammar::vocabulary() const noexcept { return compiled_->vocabulary; }

std::shared_ptr<const TokenGrammar> TokenGrammar::any_json_object(
    const GrammarVocabulary& vocabulary) {
  return std::shared_ptr<const TokenGrammar>(new TokenGrammar(
      std::make_unique<grammar::CompiledGrammar>(grammar::rules_of_any_json_object(), vocabulary)));
}

std::shared_ptr<const TokenGrammar> TokenGrammar::from_json_schema(
    std::string_view schema, const GrammarVocabulary& vocabulary, const SchemaFrame& frame) {
  return std::shared_ptr<const TokenGrammar>(
      new TokenGrammar(std::make_unique<grammar::CompiledGrammar>(
          grammar::rules_of_schema(schema, {}, frame), vocabulary)));
}

std::shared_ptr<const TokenGrammar> TokenGrammar::from_gbnf(std::string_view text,
                                                            const GrammarVocabulary& vocabulary) {
  return std::shared_ptr<const TokenGrammar>(new TokenGrammar(
      std::make_unique<grammar::CompiledGrammar>(grammar::rules_of_gbnf(text), vocabulary)));
}

}  // namespace clora
