// find_support() of chat_renderer.hpp.
#include <optional>

#include "clora/runtime/error.hpp"
#include "clora/runtime/files/json.hpp"
#include "model/text/chat_renderer.hpp"

namespace clora {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kText = "probe_of_a_text";

class Prober {
 public:
  explicit Prober(ChatRenderer renderer) : renderer_(std::move(renderer)) {
    renderer_.support = {.text_content = true, .typed_content = true, .null_content = true};
  }

  ChatSupport find(std::string_view template_text) {
    ChatSupport found;
    found.typed_content = renders_typed();
    found.text_content = contains({user(kText)}, kText) || !found.typed_content;
    renderer_.support.text_content = found.text_content;
    renderer_.support.typed_content = found.typed_content;
    found.system = contains({{"system", kText}, user("Hi")}, kText);
    ChatOptions with_tools;
    with_tools.tools = parse_json<Json>(
        R"([{"type": "function", "function": {"name": "probe_of_a_text", "description": "d",
        "parameters": {"type": "object", "properties": {}, "required": []}}}])",
        "probe");
    found.tools = contains({user("Hi")}, kText, with_tools);
    find_calls(found);
    found.thinking = thinks();
    found.generation = template_text.find("endgeneration") != std::string_view::npos;
    return found;
  }

 private:
  static ChatMessage user(std::string content) { return {"user", std::move(content)}; }

  static ChatMessage with_fields(const char* role, const char* fields) {
    ChatMessage message{role, ""};
    message.fields = parse_json<Json>(fields, "probe");
    return message;
  }

  std::optional<std::string> rendered(const std::vector<ChatMessage>& messages,
                                      const ChatOptions& options = {}) const {
    try {
      return renderer_.render(messages, options).text;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  bool contains(const std::vector<ChatMessage>& messages, std::string_view part,
                const ChatOptions& options = {}) const {
    const auto text = rendered(messages, options);
    return text && text->find(part) != std::string::npos;
  }

  // A template that prints the list itself, as Python does, does not render its parts.
  bool renders_typed() const {
    const auto text = rendered(
        {with_fields("user", R"({"content": [{"type": "text", "text": "probe_of_a_text"}]})")});
    return text && text->find(kText) != std::string::npos &&
           text->find("'probe_of_a_text'") == std::string::npos &&
           text->find("\"probe_of_a_text\"") == std::string::npos;
  }

  // The rendering of a call whose arguments are an object or its JSON text.
  std::optional<std::string> rendered_call(Json content, bool as_text) const {
    const Json arguments = {{"probe_key", "v"}};
    ChatMessage message{"assistant", ""};
    message.fields["content"] = std::move(content);
    message.fields["tool_calls"] = Json::array(
        {{{"id", "call00001"},
          {"type", "function"},
          {"function",
           {{"name", "f"}, {"arguments", as_text ? Json(json_text(arguments)) : arguments}}}}});
    return rendered({user("Hi"), message});
  }

  void find_calls(ChatSupport& found) const {
    const auto has = [](const std::optional<std::string>& text, const char* part) {
      return text && text->find(part) != std::string::npos;
    };
    const auto object = rendered_call("", false), text = rendered_call("", true);
    found.object_arguments = has(object, "probe_key") && !has(object, "'probe_key'");
    found.text_arguments = has(text, "\"probe_key\"") && !has(text, "\\\"probe_key");
    found.tool_calls = found.object_arguments || found.text_arguments;
    if (!found.tool_calls) found.object_arguments = found.text_arguments = true;
    const auto null = rendered_call(nullptr, !found.object_arguments);
    found.null_content = found.tool_calls && null && null->find("None") == std::string::npos;
  }

  bool thinks() const {
    ChatOptions prompt{.add_generation_prompt = true};
    const auto with = rendered({user("Hi")}, prompt);
    prompt.enable_thinking = false;
    if (with && with != rendered({user("Hi")}, prompt)) return true;
    // Some templates show the reasoning of the last turn only, others drop that of the first.
    const ChatMessage thought = with_fields("assistant", R"({"content": "a",
        "reasoning_content": "probe_of_a_text", "thinking": "probe_of_a_text"})");
    if (contains({user("Hi"), thought}, kText)) return true;
    std::vector<ChatMessage> two_turns(4, user("Hi"));
    two_turns[1].role = "assistant";
    two_turns[3] = thought;
    return contains(two_turns, kText);
  }

  ChatRenderer renderer_;
};

}  // namespace

ChatSupport find_support(const ChatRenderer& renderer, std::string_view template_text) {
  return Prober(renderer).find(template_text);
}

}  // namespace clora
