// The parts of a TokenGrammar. Private to token_grammar.cpp and grammar_state.cpp.
#pragma once

#include "clora/model/generation/grammar/token_grammar.hpp"
#include "model/generation/grammar/automaton.hpp"
#include "model/generation/grammar/mask_cache.hpp"

namespace clora::grammar {

struct CompiledGrammar {
  CompiledGrammar(const RuleSet& rules, const GrammarVocabulary& tokens)
      : vocabulary(tokens), automaton(rules), masks(automaton, vocabulary.trie()) {}

  const GrammarVocabulary vocabulary;
  const Automaton automaton;
  MaskCache masks;
};

}  // namespace clora::grammar
