// ModelText: the tokeniser and chat template of a model. Both are optional, so a model without them
// can be run on token ids. Immutable; needs no device.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "clora/model/configuration/model_config.hpp"
#include "clora/model/text/chat_template.hpp"
#include "clora/model/text/tokenizer.hpp"

namespace clora {

class ModelText {
 public:
  // Does not throw if the model lacks a tokeniser or a chat template; the accessors below do. A
  // chat template, given by its name or as a Jinja file, replaces the one of the model's files.
  // Errors: those of ChatTemplate::named() and ChatTemplate::parse().
  explicit ModelText(const std::filesystem::path& model, const std::string& chat_template = {});

  // Errors: the error of loading it.
  const Tokenizer& tokenizer() const;
  const ChatTemplate& chat_template() const;
  bool has_tokenizer() const noexcept { return tokenizer_.has_value(); }
  // nullptr if there is no known template.
  const ChatTemplate* find_chat_template() const noexcept;
  // The Jinja text of the template: that of a file, or those of the model's files; empty for a
  // template given by its name.
  const std::string& chat_template_text() const noexcept { return template_text_; }
  // The maximum number of positions of the model; 0 if its files do not state it.
  std::int64_t max_positions() const;
  // The tokens that end a reply, from the tokeniser and the model's configuration.
  std::vector<std::int32_t> end_ids(const ModelConfig& config) const;
  const std::string& tokenizer_problem() const noexcept { return tokenizer_problem_; }
  const std::string& chat_template_problem() const noexcept { return template_problem_; }

 private:
  void find_template(const std::string& name);

  std::filesystem::path model_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<ChatTemplate> template_;
  std::string tokenizer_problem_;
  std::string template_problem_;
  std::string template_text_;
};

}  // namespace clora
