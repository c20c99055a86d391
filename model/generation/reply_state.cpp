#include "model/generation/reply_state.hpp"

#include <algorithm>

namespace clora {

ReplyState::ReplyState(const Tokenizer* tokenizer, const GenerationRequest& request)
    : text_(tokenizer, request.stop_texts) {
  if (request.grammar) grammar_.emplace(request.grammar, request.end_ids);
}

bool ReplyState::follow_grammar(std::int32_t id) {
  if (!grammar_) return true;
  try {
    grammar_->accept(id);
  } catch (const Error& error) {
    grammar_error_ = error;
  }
  return !grammar_error_;
}

bool ReplyState::must_end() const { return text_.stopped() || (grammar_ && grammar_->must_end()); }

bool ReplyState::write_mask(std::span<std::uint32_t> mask) {
  if (!grammar_) return false;
  try {
    grammar_->write_mask(mask);
  } catch (const Error& error) {
    grammar_error_ = error;
    std::ranges::fill(mask, 0U);
  }
  return true;
}

}  // namespace clora
