// GrammarVocabulary: the tokens of a tokenizer as grammars need them. Built once for a tokenizer
// and shared by all its grammars. A cheap handle to immutable tables; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "clora/model/text/tokenizer.hpp"

namespace clora {

namespace grammar {
class TokenTrie;
}

class GrammarVocabulary {
 public:
  // Control tokens are no text, so that no grammar allows them except as end tokens.
  explicit GrammarVocabulary(const Tokenizer& tokenizer);

  std::int32_t size() const;  // V
  // Tokenizer::end_of_generation().
  const std::vector<std::int32_t>& end_ids() const;

  const grammar::TokenTrie& trie() const { return *trie_; }

 private:
  std::shared_ptr<const grammar::TokenTrie> trie_;
};

}  // namespace clora
