#include "model/data/conversation.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "clora/runtime/files/json.hpp"
#include "model/data/message_reading.hpp"

namespace clora {

namespace {

constexpr JsonLimits kEmbeddedLimits{.keys = 1024};  // of JSON within a record's texts

RecordJson parse_embedded(const std::string& text, std::string_view key) {
  try {
    return parse_json<RecordJson>(text, fmt::format("\"{}\"", key), kEmbeddedLimits);
  } catch (const Error& error) {
    bad_record("{}", error.what());
  }
}

// The names of ShareGPT's descendants for who speaks, and the roles that they are.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kSpeakers = {
    {{"human", "user"},
     {"user", "user"},
     {"gpt", "assistant"},
     {"assistant", "assistant"},
     {"chatgpt", "assistant"},
     {"model", "assistant"},
     {"bing", "assistant"},
     {"bard", "assistant"},
     {"system", "system"},
     {"developer", "developer"},
     {"tool", "tool"},
     {"observation", "tool"},
     {"function_response", "tool"},
     {"tool_response", "tool"},
     {"function_call", "calls"},
     {"tool_call", "calls"}}};

std::string_view role_of_speaker(const std::string& speaker) {
  const auto found = std::ranges::find(kSpeakers, std::string_view(speaker),
                                       &std::pair<std::string_view, std::string_view>::first);
  if (found != kSpeakers.end()) return found->second;
  std::string names;
  for (const auto& [name, role] : kSpeakers)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  bad_record("\"from\" must be one of {}, got '{}'", names, speaker.substr(0, 60));
}

RecordJson calls_of_text(const std::string& text) {
  const RecordJson parsed = parse_embedded(text, "value");
  return parsed.is_array() ? parsed : RecordJson::array({parsed});
}

// Converts {"from", "value"} to {"role", "content"}; other keys stay.
RecordJson with_role(const RecordJson& item) {
  if (!item.is_object()) bad_record("a message must be an object, got {}", json_excerpt(item));
  const std::string_view role = role_of_speaker(string_of(item, "from"));
  const std::string value = string_of(item, "value");
  RecordJson message = item;
  message.erase("from");
  message.erase("value");
  if (role == "calls") {
    message["role"] = "assistant";
    message["content"] = nullptr;
    message["tool_calls"] = calls_of_text(value);
  } else {
    message["role"] = role;
    message["content"] = value;
  }
  return message;
}

const RecordJson& list_of_conversation(const RecordJson& record) {
  for (const char* key : {"messages", "conversations"}) {
    if (record.contains(key)) return record[key];
  }
  return record["conversation"];
}

std::vector<ChatMessage> share_gpt_messages(const RecordJson& list) {
  if (!list.is_array()) bad_record("\"conversations\" must be a list, got {}", json_excerpt(list));
  RecordJson converted = RecordJson::array();
  for (const RecordJson& item : list) converted.push_back(with_role(item));
  return messages_of(converted, "conversations");
}

ChatMessage text_message(const char* role, std::string text) {
  return {.role = role, .content = std::move(text)};
}

std::vector<ChatMessage> alpaca_messages(const RecordJson& record) {
  std::vector<ChatMessage> messages;
  if (const RecordJson* history = find_filled(record, "history")) {
    if (!history->is_array()) {
      bad_record("\"history\" must be a list of pairs, got {}", json_excerpt(*history));
    }
    for (const RecordJson& pair : *history) {
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
        bad_record("\"history\" must hold pairs of an instruction and its answer, got {}",
                   json_excerpt(pair));
      }
      messages.push_back(text_message("user", pair[0].get<std::string>()));
      messages.push_back(text_message("assistant", pair[1].get<std::string>()));
    }
  }
  const std::string input = string_or_empty(record, "input");
  const std::string instruction = filled_string_of(record, "instruction");
  messages.push_back(
      text_message("user", input.empty() ? instruction : instruction + "\n" + input));
  messages.push_back(text_message("assistant", filled_string_of(record, "output")));
  return messages;
}

// TRL's: of the prompt nothing is trained.
std::vector<ChatMessage> prompt_messages(const RecordJson& record) {
  if (!has_prompt_messages(record)) {
    return {text_message("user", string_of(record, "prompt")),
            text_message("assistant", filled_string_of(record, "completion"))};
  }
  std::vector<ChatMessage> messages = messages_of(record["prompt"], "prompt");
  for (ChatMessage& message : messages) message.trains = false;
  for (ChatMessage& message : messages_of(record["completion"], "completion")) {
    messages.push_back(std::move(message));
  }
  return messages;
}

std::vector<ChatMessage> messages_of_form(const RecordJson& record, RecordForm form) {
  switch (form) {
    case RecordForm::messages:
      return messages_of(list_of_conversation(record),
                         record.contains("messages") ? "messages" : "conversations");
    case RecordForm::share_gpt:
      return share_gpt_messages(list_of_conversation(record));
    case RecordForm::alpaca:
      return alpaca_messages(record);
    default:
      return prompt_messages(record);
  }
}

void prepend_system(std::vector<ChatMessage>& messages, const RecordJson& record) {
  std::string system = string_or_empty(record, "system");
  if (system.empty()) return;
  if (!messages.empty() && messages.front().role == "system") {
    if (messages.front().content == system) return;
    bad_record("\"system\" differs from the system message of the conversation; keep one");
  }
  messages.insert(messages.begin(), text_message("system", std::move(system)));
}

void require_written(bool is_written, std::string_view what) {
  if (is_written) return;
  bad_record(
      "the model's chat template does not write {}, so the model would not see them; remove "
      "them, write them into \"content\", or choose a template that does",
      what);
}

}  // namespace

std::vector<ChatMessage> messages_of(const RecordJson& list, std::string_view key) {
  if (!list.is_array()) bad_record("\"{}\" must be a list, got {}", key, json_excerpt(list));
  if (list.empty()) bad_record("\"{}\" is empty", key);
  std::vector<ChatMessage> messages;
  for (const RecordJson& item : list) messages.push_back(message_of(item));
  return messages;
}

// OpenAI's earlier "functions" are the inner objects of "tools".
RecordJson tools_of(const RecordJson& object) {
  const RecordJson* const tools = find_filled(object, "tools");
  const RecordJson* const functions = find_filled(object, "functions");
  if (tools != nullptr && functions != nullptr) {
    bad_record("a record cannot have both \"tools\" and \"functions\"");
  }
  const std::string_view key = tools != nullptr ? "tools" : "functions";
  const RecordJson* const given = tools != nullptr ? tools : functions;
  if (given == nullptr) return nullptr;
  const RecordJson list =
      given->is_string() ? parse_embedded(given->get<std::string>(), key) : *given;
  if (!list.is_array()) bad_record("\"{}\" must be a list, got {}", key, json_excerpt(list));
  RecordJson result = RecordJson::array();
  for (const RecordJson& tool : list) {
    if (!tool.is_object()) {
      bad_record("an element of \"{}\" must be an object, got {}", key, json_excerpt(tool));
    }
    result.push_back(key == "tools" ? tool : RecordJson{{"type", "function"}, {"function", tool}});
  }
  return result.empty() ? RecordJson() : result;
}

RecordJson arguments_of(const RecordJson& object) {
  const RecordJson* const given = find_filled(object, "chat_template_kwargs");
  if (given == nullptr) return nullptr;
  if (given->is_object()) return *given;
  bad_record("\"chat_template_kwargs\" must be an object, got {}", json_excerpt(*given));
}

Conversation fitted(Conversation conversation, const ChatSupport& support) {
  for (ChatMessage& message : conversation.messages) {
    require_written(support.tool_calls || !message.fields.contains("tool_calls"), "tool calls");
    fit_reasoning(message, support);
  }
  require_written(support.tools || conversation.tools.is_null(), "tools");
  return conversation;
}

std::optional<RecordForm> form_of(const RecordJson& record) {
  if (record.contains("messages")) return RecordForm::messages;
  if (record.contains("conversations") || record.contains("conversation")) {
    return is_message_list(list_of_conversation(record)) ? RecordForm::messages
                                                         : RecordForm::share_gpt;
  }
  if (record.contains("prompt") || record.contains("completion")) return RecordForm::prompt;
  if (record.contains("instruction")) return RecordForm::alpaca;
  if (record.contains("text")) return RecordForm::text;
  return std::nullopt;
}

bool has_prompt_messages(const RecordJson& record) {
  for (const char* key : {"prompt", "completion"}) {
    if (!record.contains(key)) bad_record("\"{}\" is missing", key);
  }
  const bool prompt = record["prompt"].is_array(), completion = record["completion"].is_array();
  if (prompt != completion) {
    bad_record(
        "\"prompt\" and \"completion\" must be both texts or both lists of messages, got {} "
        "and {}",
        json_excerpt(record["prompt"]), json_excerpt(record["completion"]));
  }
  return prompt;
}

Conversation conversation_of(const RecordJson& record, RecordForm form) {
  Conversation conversation{.messages = messages_of_form(record, form),
                            .tools = tools_of(record),
                            .arguments = arguments_of(record)};
  prepend_system(conversation.messages, record);
  const auto is_assistant = [](const ChatMessage& each) { return each.role == "assistant"; };
  if (std::ranges::none_of(conversation.messages, is_assistant)) {
    bad_record(
        "the record has no target: none of its tokens counts towards the loss, since it has no "
        "message of the assistant");
  }
  return conversation;
}

std::string_view name_of(RecordForm form) {
  switch (form) {
    case RecordForm::messages:
      return "messages";
    case RecordForm::share_gpt:
      return "ShareGPT";
    case RecordForm::prompt:
      return "prompt and completion";
    case RecordForm::alpaca:
      return "Alpaca";
    case RecordForm::text_pair:
      return "text pairs";
    case RecordForm::scored_pair:
      return "scored pairs";
    case RecordForm::answer_pair:
      return "preference pairs";
    case RecordForm::labelled_answer:
      return "labelled answers";
    case RecordForm::text:
      break;
  }
  return "text";
}

}  // namespace clora
