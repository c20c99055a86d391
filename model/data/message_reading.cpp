#include "model/data/message_reading.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "clora/runtime/files/json.hpp"

namespace clora {

namespace {

constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};
constexpr std::array<std::string_view, 3> kReasoning = {"reasoning_content", "reasoning",
                                                        "thinking"};
constexpr std::array<std::string_view, 4> kTrainFlags = {"weight", "train", "training", "loss"};
// Keys that mean something to other programs, and that no template shows.
constexpr std::array<std::string_view, 5> kRefused = {"audio", "images", "image", "videos",
                                                      "refusal"};
constexpr std::array<std::string_view, 1> kPrefix = {"prefix"};  // Mistral's open last turn

std::string role_of(const RecordJson& item) {
  std::string role = string_of(item, "role");
  if (std::ranges::find(kRoles, role) == kRoles.end()) {
    bad_record("\"role\" must be system, developer, user, assistant, tool or function, got '{}'",
               role.substr(0, 60));
  }
  return role == "function" ? "tool" : role;
}

// The text of a typed part; some data sets name it "value", and reasoning parts name it after
// their type. Mistral's reasoning is a list of text parts.
std::string text_of_part(const RecordJson& part, std::string_view type) {
  for (const std::string_view key : {std::string_view("text"), std::string_view("value"), type}) {
    const auto found = part.find(std::string(key));
    if (found == part.end()) continue;
    if (!found->is_array()) return string_of(part, key);
    std::string text;
    for (const RecordJson& inner : *found) text += string_of(inner, "text");
    return text;
  }
  bad_record("a part of type {} has no \"text\"", type);
}

// What the content of a message says.
struct Content {
  std::string text;
  std::string reasoning;
  RecordJson field;  // the content for the template; null: it is `text`
};

void append_part(Content& content, const RecordJson& part) {
  if (!part.is_object()) {
    bad_record("a part of \"content\" must be an object, got {}", json_excerpt(part));
  }
  const std::string type = string_of(part, "type");
  const bool is_reasoning = type == "thinking" || type == "reasoning";
  if (type != "text" && !is_reasoning) {
    bad_record("a part of \"content\" must be of type text, thinking or reasoning, got '{}'",
               type.substr(0, 60));
  }
  const std::string text = text_of_part(part, type);
  (is_reasoning ? content.reasoning : content.text) += text;
  if (is_reasoning) {
    content.field.push_back(part);
  } else {
    content.field.push_back({{"type", "text"}, {"text", text}});
  }
}

Content content_of(const RecordJson& item) {
  const auto found = item.find("content");
  Content content;
  if (found == item.end() || found->is_null()) return content;
  if (!found->is_array()) {
    content.text = string_of(item, "content");
    return content;
  }
  if (found->empty()) bad_record("\"content\" is an empty list");
  content.field = RecordJson::array();
  for (const RecordJson& part : *found) append_part(content, part);
  return content;
}

std::string reasoning_of(const RecordJson& item, std::string reasoning) {
  for (const std::string_view key : kReasoning) {
    if (find_filled(item, key) == nullptr) continue;
    const std::string text = string_of(item, key);
    if (!reasoning.empty() && text != reasoning) {
      bad_record("\"{}\" differs from the message's other reasoning; keep one", key);
    }
    reasoning = text;
  }
  return reasoning;
}

std::optional<bool> flag_of(const RecordJson& item, std::string_view key) {
  const auto found = item.find(std::string(key));
  if (found == item.end() || found->is_null()) return std::nullopt;
  if (key == "weight") {
    if (found->is_number() && (*found == 0 || *found == 1)) return *found == 1;
    bad_record("\"weight\" of a message must be 0 or 1, got {}", json_excerpt(*found));
  }
  if (found->is_boolean()) return found->get<bool>();
  bad_record("\"{}\" of a message must be true or false, got {}", key, json_excerpt(*found));
}

// Only the assistant's messages are ever trained.
bool trains(const RecordJson& item, std::string_view role) {
  std::optional<bool> result;
  for (const std::string_view key : kTrainFlags) {
    const std::optional<bool> flag = flag_of(item, key);
    if (!flag) continue;
    if (*flag && role != "assistant") {
      bad_record(
          "\"{}\" of a message of the {} must be {} or absent, got {}; only assistant "
          "messages are trained on",
          key, role, key == "weight" ? "0" : "false", json_excerpt(item.at(std::string(key))));
    }
    if (result.value_or(*flag) != *flag) {
      bad_record("\"{}\" contradicts another key of the message that says whether it is trained",
                 key);
    }
    result = flag;
  }
  return result.value_or(true);
}

void require_arguments(const RecordJson& function) {
  const auto arguments = function.find("arguments");
  if (arguments == function.end() || arguments->is_object()) return;
  if (!arguments->is_string()) {
    bad_record("\"arguments\" of a tool call must be an object or its JSON text, got {}",
               json_excerpt(*arguments));
  }
  if (!RecordJson::accept(arguments->get_ref<const std::string&>())) {
    bad_record("\"arguments\" of a tool call is not valid JSON: {}", json_excerpt(*arguments));
  }
}

RecordJson tool_calls_of(const RecordJson& item, std::string_view role) {
  const RecordJson* const list = find_filled(item, "tool_calls");
  const RecordJson* const single = find_filled(item, "function_call");
  if (list == nullptr && single == nullptr) return nullptr;
  if (role != "assistant") bad_record("a message of the {} cannot have tool calls", role);
  if (list != nullptr && single != nullptr) {
    bad_record("a message cannot have both \"tool_calls\" and \"function_call\"");
  }
  if (single != nullptr) return RecordJson::array({tool_call_of(*single)});
  if (!list->is_array()) bad_record("\"tool_calls\" must be a list, got {}", json_excerpt(*list));
  RecordJson calls = RecordJson::array();
  for (const RecordJson& call : *list) calls.push_back(tool_call_of(call));
  return calls;
}

bool is_reasoning_part(const RecordJson& part) { return part.at("type") != "text"; }

// REQUIRES: the content is a list.
void remove_reasoning_parts(RecordJson& fields) {
  RecordJson texts = RecordJson::array();
  for (const RecordJson& part : fields["content"]) {
    if (!is_reasoning_part(part)) texts.push_back(part);
  }
  if (!texts.empty()) {
    fields["content"] = std::move(texts);
  } else if (fields.contains("tool_calls")) {
    fields["content"] = nullptr;
  } else {
    fields.erase("content");  // it is the message's empty text
  }
}

bool is_read_elsewhere(std::string_view key) {
  return key == "role" || key == "content" || key == "tool_calls" || key == "function_call" ||
         std::ranges::find(kReasoning, key) != kReasoning.end() ||
         std::ranges::find(kTrainFlags, key) != kTrainFlags.end();
}

}  // namespace

RecordJson tool_call_of(const RecordJson& call) {
  if (!call.is_object()) bad_record("a tool call must be an object, got {}", json_excerpt(call));
  RecordJson result = call;
  if (!call.contains("function")) {
    result = {{"type", "function"}, {"function", call}};
  } else if (!result.contains("type")) {
    result["type"] = "function";
  }
  if (result["type"] != "function") {
    bad_record("a tool call must be of type function, got {}", json_excerpt(result["type"]));
  }
  const RecordJson& function = result["function"];
  if (!function.is_object()) {
    bad_record("\"function\" of a tool call must be an object, got {}", json_excerpt(function));
  }
  filled_string_of(function, "name");
  require_arguments(function);
  return result;
}

void fit_reasoning(ChatMessage& message, const ChatSupport& support) {
  RecordJson& fields = message.fields;
  if (!fields.contains("reasoning_content")) return;
  const auto content = fields.find("content");
  const bool is_list = content != fields.end() && content->is_array();
  const bool has_parts = is_list && std::ranges::any_of(*content, is_reasoning_part);
  if (support.thinking) {
    if (has_parts) remove_reasoning_parts(fields);
    return;
  }
  if (!has_parts || !support.typed_content) {
    bad_record(
        "the model's chat template does not write reasoning parts, so the model would not see "
        "them; remove them, write them into \"content\", or choose a template that does");
  }
  for (const std::string_view key : kReasoning) fields.erase(std::string(key));
}

bool is_message_list(const RecordJson& value) {
  return value.is_array() && !value.empty() &&
         std::ranges::all_of(value, [](const RecordJson& item) {
           return item.is_object() && item.contains("role");
         });
}

ChatMessage message_of(const RecordJson& item) {
  if (!item.is_object()) bad_record("a message must be an object, got {}", json_excerpt(item));
  refuse_keys(item, kRefused, "a message");
  const bool is_open = item.contains("prefix") && item["prefix"] != false;
  if (is_open) refuse_keys(item, kPrefix, "a message");
  Content content = content_of(item);
  ChatMessage message{.role = role_of(item), .content = std::move(content.text)};
  message.trains = trains(item, message.role);
  RecordJson& fields = message.fields;
  for (const auto& [key, value] : item.items()) {
    if (!is_read_elsewhere(key) && !is_blank(value)) fields[key] = value;
  }
  const std::string reasoning = reasoning_of(item, std::move(content.reasoning));
  if (!reasoning.empty()) {
    for (const std::string_view key : kReasoning) fields[std::string(key)] = reasoning;
  }
  RecordJson calls = tool_calls_of(item, message.role);
  const bool has_content = item.contains("content") && !item["content"].is_null();
  if (!has_content && calls.is_null() && reasoning.empty()) {
    bad_record("\"content\" is {}", item.contains("content")
                                        ? "null in a message without tool calls or reasoning"
                                        : "missing");
  }
  if (!calls.is_null()) fields["tool_calls"] = std::move(calls);
  if (!has_content || !content.field.is_null()) fields["content"] = std::move(content.field);
  return message;
}

}  // namespace clora
