// TokenGrammar: what a reply must match, compiled for the tokens of one tokenizer. Immutable and
// thread-safe: requests share it. GrammarState, below, follows one reply.
//
// A state gives the tokens that may come next as a mask over the vocabulary. Whatever tokens are
// chosen from the masks, the reply can always be finished: no mask leads into a dead end, as long
// as the vocabulary has a token for each single byte. docs/structured-output.md describes what
// schemas may contain.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/generation/grammar/grammar_vocabulary.hpp"

namespace clora {

namespace grammar {
struct CompiledGrammar;
}

// The texts around the values of a schema: before VALUE after, or before VALUE between VALUE ...
// after, with any number of values. UTF-8.
struct SchemaFrame {
  std::string before = {};
  std::string between = {};  // empty: there is one value
  std::string after = {};
};

class TokenGrammar {
 public:
  // Any JSON object.
  static std::shared_ptr<const TokenGrammar> any_json_object(const GrammarVocabulary& vocabulary);

  // The JSON values that a JSON Schema describes. Errors: invalid_argument for a text that is no
  // schema or exceeds a limit; unsupported, "json schema: PATH: ...", for what is not supported,
  // and for a schema that no value matches.
  static std::shared_ptr<const TokenGrammar> from_json_schema(std::string_view schema,
                                                              const GrammarVocabulary& vocabulary,
                                                              const SchemaFrame& frame = {});

  // The texts of a grammar in GBNF, the notation of llama.cpp, from its rule `root` on. Errors:
  // invalid_argument, "grammar: line N: ..."; unsupported, for left recursion, and for a grammar
  // that no text matches.
  static std::shared_ptr<const TokenGrammar> from_gbnf(std::string_view text,
                                                       const GrammarVocabulary& vocabulary);

  ~TokenGrammar();
  TokenGrammar(const TokenGrammar&) = delete;
  TokenGrammar& operator=(const TokenGrammar&) = delete;

  const GrammarVocabulary& vocabulary() const noexcept;

 private:
  friend class GrammarState;
  explicit TokenGrammar(std::unique_ptr<grammar::CompiledGrammar> compiled);

  std::unique_ptr<grammar::CompiledGrammar> compiled_;
};

// Where one reply is in its grammar. A copy is a point to return to, if tokens that were accepted
// are taken back. Used by one thread; shares the grammar.
class GrammarState {
 public:
  // `end_ids`: the tokens that may end the reply; by default those of the tokenizer. They count as
  // nothing else.
  explicit GrammarState(std::shared_ptr<const TokenGrammar> grammar,
                        std::optional<std::vector<std::int32_t>> end_ids = {});
  ~GrammarState();
  GrammarState(const GrammarState& other);
  GrammarState& operator=(const GrammarState& other);
  GrammarState(GrammarState&&) noexcept;
  GrammarState& operator=(GrammarState&&) noexcept;

  // Whether accept() would accept the token.
  bool allows(std::int32_t id) const;

  // Goes on by one token. Errors, after which the state is unchanged: invalid_argument if it may
  // not come next; unsupported if the text has more than 256 readings.
  void accept(std::int32_t id);

  // Bit v % 32 of word v / 32 is set iff token v may come next: end tokens iff is_complete(). All
  // other bits are cleared. REQUIRES ceil(V / 32) words or more. Errors: unsupported if no token
  // may come next although the reply is not complete, since the vocabulary lacks single bytes, or
  // if the text has too many readings.
  void write_mask(std::span<std::uint32_t> mask) const;

  // The reply matches the grammar as it is.
  bool is_complete() const noexcept;
  // It does, and nothing but its end may follow.
  bool must_end() const noexcept;

 private:
  struct Progress;
  std::unique_ptr<Progress> progress_;
};

}  // namespace clora
