#include "tools/clora/model_text.hpp"

#include "model/tokenizer_files.hpp"
#include "runtime/error.hpp"

namespace clora {

ModelText::ModelText(const std::filesystem::path& model) {
  try {
    tokenizer_ = load_tokenizer(model);
  } catch (const Error& error) {
    tokenizer_problem_ = error.what();
    template_problem_ = error.what();
    return;
  }
  try {
    if (tokenizer_->chat_template().empty()) {
      template_problem_ = fmt::format("the files of '{}' hold none", model.string());
    } else {
      template_ = ChatTemplate::recognise(tokenizer_->chat_template(), *tokenizer_);
    }
  } catch (const Error& error) {
    template_problem_ = error.what();
  }
}

const Tokenizer& ModelText::tokenizer() const {
  if (!tokenizer_) fail(ErrorCode::unsupported, "{}", tokenizer_problem_);
  return *tokenizer_;
}

const ChatTemplate& ModelText::chat_template() const {
  if (!template_) fail(ErrorCode::unsupported, "{}", template_problem_);
  return *template_;
}

const ChatTemplate* ModelText::find_chat_template() const noexcept {
  return template_ ? &*template_ : nullptr;
}

}  // namespace clora
