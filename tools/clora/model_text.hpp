// ModelText: the words of a model: its tokeniser, and how it wants conversations written. Both are
// optional, so that models without them can be run on ids. Immutable; needs no device.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "model/text/chat_template.hpp"
#include "model/text/tokenizer.hpp"

namespace clora {

class ModelText {
 public:
  // Never throws for what a model lacks; the functions below do, when it is asked for. A chat
  // template by name takes the place of that of the model's files. Errors: those of
  // ChatTemplate::named() for a name, and what the tokeniser lacks for it.
  explicit ModelText(const std::filesystem::path& model, const std::string& chat_template = {});

  // Errors: what loading it met.
  const Tokenizer& tokenizer() const;
  const ChatTemplate& chat_template() const;
  bool has_tokenizer() const noexcept { return tokenizer_.has_value(); }
  // nullptr where there is none that is known.
  const ChatTemplate* find_chat_template() const noexcept;
  // What the model reads at most; 0 where its files do not say.
  std::int64_t max_positions() const;
  const std::string& tokenizer_problem() const noexcept { return tokenizer_problem_; }
  const std::string& chat_template_problem() const noexcept { return template_problem_; }

 private:
  void find_template(const std::string& name);

  std::filesystem::path model_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<ChatTemplate> template_;
  std::string tokenizer_problem_;
  std::string template_problem_;
};

}  // namespace clora
