// A conversation as chat templates read it: messages, and what is said once for all of them.
// Values; thread-safe.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace clora {

struct ChatMessage {
  std::string role;     // system, user, assistant, tool, ...
  std::string content;  // plain text
  bool trains = true;   // an assistant's turn is labelled
  // The message's other keys (tool_calls, reasoning_content, name, tool_call_id, ...), an object in
  // the order of the file. If it has "content" (null, or a list of typed parts), the template reads
  // that in place of `content`.
  nlohmann::ordered_json fields = nlohmann::ordered_json::object();
};

struct ChatOptions {
  bool add_generation_prompt = false;  // end with the opening of an assistant's turn
  bool enable_thinking = true;         // Qwen3: false opens the turn with an empty reasoning part
  // Special tokens in the contents are parsed as tokens; else they are plain text.
  bool parse_special = false;
  // Today's date in templates of Llama 3.1 and later. The default is the templates' own; in
  // transformers, Llama 3.2's template uses the current day, which would make results depend on it.
  std::string date = "26 Jul 2024";
  // The functions that the model may call, a list as in OpenAI's requests; empty: none.
  nlohmann::ordered_json tools = {};
  // Further variables of the template, an object (chat_template_kwargs); empty: none.
  nlohmann::ordered_json arguments = {};
};

}  // namespace clora
