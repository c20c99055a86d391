// ReplyState: what an engine keeps of a request besides its sequence: the text of the reply as its
// tokens arrive, and where the reply is in its grammar. Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "clora/model/generation/generation_request.hpp"
#include "clora/model/generation/grammar/token_grammar.hpp"
#include "model/generation/reply_text.hpp"

namespace clora {

class ReplyState {
 public:
  // tokenizer: null if events have no texts.
  ReplyState(const Tokenizer* tokenizer, const GenerationRequest& request);

  // Continues the grammar, if there is one, by a token. Returns false if it cannot follow; the
  // cause is then grammar_error().
  bool follow_grammar(std::int32_t id);
  // Continues the text by a token and returns what is final with it.
  std::string push(std::int32_t id) { return text_.push(id); }
  // Whether a stop text or the grammar ends the reply here.
  bool must_end() const;
  // Returns the text that was held back.
  std::string finish() { return text_.finish(); }

  // Writes the tokens that the grammar allows next (SampleState::mask); returns false if there is
  // no grammar. If the grammar cannot go on, which is then grammar_error(), no token is allowed.
  bool write_mask(std::span<std::uint32_t> mask);
  const std::optional<Error>& grammar_error() const noexcept { return grammar_error_; }

 private:
  ReplyText text_;
  std::optional<GrammarState> grammar_;
  std::optional<Error> grammar_error_;
};

}  // namespace clora
