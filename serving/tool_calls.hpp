// Calls of tools in a reply: the text that a model generates for them, in the forms of the chat
// templates that are known, and the calls in OpenAI's form.
//
//   hermes   <tool_call>{"name": ..., "arguments": {...}}</tool_call>, repeated, after any text
//            (Hermes 2 Pro, Qwen 2.5 and 3)
//   llama3   {"name": ..., "parameters": {...}}, repeated after semicolons; the reply is nothing
//   else mistral  [TOOL_CALLS][{"name": ..., "arguments": {...}}]; the reply is nothing else. The
//   marker is
//            a control token, which has no text
//
// A reply that is not completely of the form, or calls what the request does not offer, stays text.
// Threads: one at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace clora {

enum class ToolCallForm { none, hermes, llama3, mistral };

// The form that a chat template (Jinja text) teaches a model.
ToolCallForm tool_call_form_of(std::string_view chat_template);

struct ToolCall {
  std::string id = {};
  std::string name = {};
  std::string arguments = {};  // JSON text
};

// Divides the text of a reply, as it arrives, into content and calls.
class ToolCallReader {
 public:
  // `names`: the tools of the request.
  ToolCallReader(ToolCallForm form, std::vector<std::string> names);

  // Returns the text that is content; text that may be a call is held back.
  std::string push(std::string_view piece);

  struct Rest {
    std::string content;
    std::vector<ToolCall> calls;
  };
  // The calls, or the text held back if it is none.
  Rest finish();

 private:
  std::string push_hermes();
  std::string push_json();
  std::vector<ToolCall> calls() const;  // of `held_`; none if it is not completely of the form

  const ToolCallForm form_;
  const std::vector<std::string> names_;
  std::string held_;
  bool is_call_ = false;     // the text held back began like a call
  bool is_content_ = false;  // no call can follow
};

}  // namespace clora
