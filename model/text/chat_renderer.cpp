#include "model/text/chat_renderer.hpp"

#include <algorithm>
#include <array>

#include "clora/runtime/files/json.hpp"
#include "model/text/jinja/date.hpp"
#include "model/text/jinja/function.hpp"
#include "model/text/jinja/parameters.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using Json = nlohmann::ordered_json;
using jinja::Dict;
using jinja::Origin;
using jinja::Text;
using jinja::Value;

// Origins: inputs that are no message, then the messages.
constexpr std::int32_t kOtherInput = 0;
constexpr std::int32_t kFirstMessage = 1;

// Templates build special tokens from these roles: '<|' + role + '|>'. Others are plain text.
bool is_known_role(std::string_view role) {
  constexpr std::array<std::string_view, 8> kRoles = {
      "system", "user", "assistant", "tool", "developer", "function", "ipython", "model"};
  return std::ranges::find(kRoles, role) != kRoles.end();
}

std::string joined_parts(const Json& parts) {
  std::string text;
  for (const Json& part : parts) {
    const bool is_text = part.is_object() && part.contains("text") && part["text"].is_string();
    require(is_text || part.is_string(),
            "this template renders no parts of a content but texts, got {}", json_excerpt(part));
    text += part.is_string() ? part.get<std::string>() : part["text"].get<std::string>();
  }
  return text;
}

Json content_of(const ChatMessage& message, const ChatSupport& support) {
  const auto given = message.fields.find("content");
  Json content = given == message.fields.end() ? Json(message.content) : *given;
  if (content.is_null() && !support.null_content) content = "";
  if (content.is_array() && !support.typed_content) content = joined_parts(content);
  if (content.is_string() && !support.text_content)
    content = Json::array({{{"type", "text"}, {"text", content}}});
  return content;
}

// The arguments of a call are an object or its JSON text; each becomes the other one if the
// template renders only that.
void convert_arguments(Json& call, const ChatSupport& support) {
  if (!call.is_object()) return;
  Json& holder =
      call.contains("function") && call["function"].is_object() ? call["function"] : call;
  const auto found = holder.find("arguments");
  if (found == holder.end()) return;
  if (!support.object_arguments && found->is_structured()) *found = json_text(*found);
  if (support.text_arguments || !found->is_string()) return;
  try {
    Json parsed = parse_json<Json>(found->get_ref<const std::string&>(), "arguments of a call");
    if (parsed.is_object()) *found = std::move(parsed);
  } catch (const Error&) {
    return;  // the template gets the text, as it is
  }
}

Value value_of(const ChatMessage& message, std::int32_t number, const ChatSupport& support) {
  const Origin own{.source = kFirstMessage + number}, other{.source = kOtherInput};
  Dict dict;
  dict.set("role", Text(message.role, is_known_role(message.role) ? Origin{} : other));
  dict.set("content", jinja::value_of(content_of(message, support), own));
  for (const auto& [key, field] : message.fields.items()) {
    if (key == "content" || key == "role") continue;
    Json value = field;
    if (key == "tool_calls" && value.is_array())
      for (Json& call : value) convert_arguments(call, support);
    const bool is_name = key == "name" || key == "tool_call_id" || key == "id";
    dict.set(Value(key), jinja::value_of(value, is_name ? other : own));
  }
  return dict;
}

Value date_function(const std::string& date) {
  return jinja::function_value(
      "strftime_now", [date](jinja::Interpreter&, const jinja::Arguments& arguments) {
        const jinja::Parameters p("strftime_now", arguments, {"format"});
        return Value(jinja::formatted_date(jinja::parse_date(date), p.text(0).bytes()));
      });
}

Dict variables_of(const ChatRenderer& renderer, std::span<const ChatMessage> messages,
                  const ChatOptions& options) {
  const Origin other{.source = kOtherInput};
  Dict variables = renderer.tokens;
  jinja::List list;
  for (std::size_t i = 0; i < messages.size(); ++i)
    list.items.push_back(value_of(messages[i], static_cast<std::int32_t>(i), renderer.support));
  variables.set("messages", Value(std::move(list)));
  variables.set("tools", jinja::value_of(options.tools.empty() ? Json() : options.tools, other));
  variables.set("documents", jinja::None{});
  variables.set("add_generation_prompt", options.add_generation_prompt);
  // As in transformers, a template chooses its own default unless it is told otherwise.
  if (!options.enable_thinking) variables.set("enable_thinking", false);
  variables.set("strftime_now", date_function(options.date));
  if (options.date != ChatOptions().date)
    variables.set("date_string", Value(Text(options.date, other)));
  for (const auto& [key, value] : options.arguments.items())
    variables.set(Value(key), jinja::value_of(value, other));
  return variables;
}

ChatText chat_text_of(const Text& text) {
  ChatText out{.text = text.bytes(), .runs = {}};
  for (const jinja::Run& run : text.runs()) {
    const std::int32_t source = run.origin.source;
    out.runs.push_back({run.begin, run.end, source == Origin::kTemplate,
                        source >= kFirstMessage ? source - kFirstMessage : -1,
                        run.origin.generated});
  }
  return out;
}

}  // namespace

jinja::Dict special_tokens_of(const Tokenizer& tokenizer) {
  Dict tokens;
  const auto add = [&](const char* name, std::optional<std::int32_t> id) {
    if (id) tokens.set(name, Value(tokenizer.token_text(*id)));
  };
  add("bos_token", tokenizer.bos());
  add("eos_token", tokenizer.eos());
  add("sep_token", tokenizer.sep());
  return tokens;
}

ChatText ChatRenderer::render(std::span<const ChatMessage> messages,
                              const ChatOptions& options) const {
  try {
    return chat_text_of(parsed.render(variables_of(*this, messages, options)));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    fail(ErrorCode::invalid_argument, "chat template{}{}: {}", name.empty() ? "" : " ", name,
         error.what());
  }
}

}  // namespace clora
