// Text: the tokenizer of a model and its chat template, if it has one. Immutable; thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "clora/model/text/chat_template.hpp"
#include "clora/model/text/tokenizer.hpp"

namespace clora::python {

struct Text : std::enable_shared_from_this<Text> {
  // chat_template: the name of a template, Jinja text, or empty for the model's own. Errors: those
  // of load_tokenizer() and ChatTemplate::parse(); a model without a template is no error.
  Text(const std::string& model, const std::string& chat_template);

  // Errors: unsupported, with the reason, if there is none.
  const ChatTemplate& required_template() const;
  const ChatTemplate* template_or_null() const { return chat_template ? &*chat_template : nullptr; }

  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat_template;
  std::string chat_template_problem;
};

}  // namespace clora::python
