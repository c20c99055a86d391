#include "model/generation/reply_text.hpp"

#include <utility>

namespace clora {

ReplyText::ReplyText(const Tokenizer* tokenizer, std::vector<std::string> stop_texts)
    : filter_(std::move(stop_texts)) {
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer);
}

std::string ReplyText::push(std::int32_t id) {
  return decoder_ ? filter_.push(decoder_->push(id)) : std::string();
}

std::string ReplyText::finish() {
  if (!decoder_ || filter_.stopped()) return {};
  std::string text = filter_.push(decoder_->finish());
  if (!filter_.stopped()) text += filter_.finish();
  return text;
}

}  // namespace clora
