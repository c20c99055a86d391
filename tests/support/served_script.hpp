// ServedScript: all that answers requests, with a ScriptedBackend in place of a model: the base
// model "base" and the adapters "one" and "two".
#pragma once

#include "clora/serving/completion_service.hpp"
#include "tests/support/scripted_backend.hpp"

namespace clora::test {

// ChatML, with tools and their calls in the form of Hermes.
inline constexpr std::string_view kScriptTemplate =
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }} <tool_call><|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content %}{{ message.content }}{% endif %}"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>"
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

struct ServedScript {
  explicit ServedScript(CompletionLimits limits = {.max_positions = 4096},
                        EngineThreadLimits replies = {})
      : engine(backend, metrics, replies), service(options(limits)) {
    models.add("one", "/adapters/one");
    models.add("two", "/adapters/two");
  }

  CompletionOptions options(CompletionLimits limits) {
    return {.engine = &engine,
            .models = &models,
            .tokenizer = &tokenizer,
            .chat_template = &chat_template,
            .chat_template_text = std::string(kScriptTemplate),
            .chat_template_source = std::string(kScriptTemplate),
            .end_ids = tokenizer.end_of_generation(),
            .fingerprint = "fp_test",
            .limits = limits};
  }

  ScriptedBackend backend;
  const Tokenizer tokenizer{byte_level_spec()};
  const ChatTemplate chat_template = ChatTemplate::parse(kScriptTemplate, tokenizer);
  ServedModels models{"base", "/models/base"};
  ServerMetrics metrics{"clora", "base"};
  EngineThread engine;
  CompletionService service;
};

}  // namespace clora::test
