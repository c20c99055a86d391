#include "serving/chat_fields.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "clora/runtime/files/json.hpp"
#include "model/data/conversation.hpp"
#include "model/data/message_reading.hpp"
#include "serving/request_body.hpp"

namespace clora {
namespace {

// The keys of a message; message_of() reads their values. OpenAI's client sends those of a reply
// back, some of them null.
void require_known_keys(const RequestJson& value, const std::string& path) {
  RequestFields fields(value, path);
  fields.required("role");
  fields.ignore({"content", "name", "tool_calls", "tool_call_id", "function_call",
                 "reasoning_content", "reasoning", "thinking"});
  fields.accept_only("annotations", RequestJson::array());
  fields.refuse_others();
}

std::vector<ChatMessage> messages_of_request(RequestFields& fields) {
  const RequestJson& values = fields.required("messages");
  if (!values.is_array() || values.empty()) {
    fields.wrong("messages", "an array of at least one message", values);
  }
  std::vector<ChatMessage> messages;
  for (const RequestJson& value : values) {
    const std::string path = fmt::format("messages[{}]", messages.size());
    require_known_keys(value, path);
    messages.push_back(as_errors_of_field(path, [&] { return message_of(value); }));
  }
  return messages;
}

void require_function(const RequestJson& tool, const std::string& path) {
  RequestFields fields(tool, path);
  const RequestJson& type = fields.required("type");
  if (type != "function") fields.wrong("type", "\"function\"", type);
  RequestFields function(fields.required("function"), path + ".function");
  function.required("name");
  const auto name = function.text("name");
  if (name->empty()) function.wrong("name", "a non-empty string", *name);
}

RequestJson tools_of_request(RequestFields& fields) {
  const RequestJson* tools = fields.find("tools");
  if (tools == nullptr) return nullptr;
  if (!tools->is_array()) fields.wrong("tools", "an array", *tools);
  for (std::size_t i = 0; i < tools->size(); ++i) {
    require_function((*tools)[i], fmt::format("tools[{}]", i));
  }
  return tools->empty() ? RequestJson() : *tools;
}

bool has_tool(const RequestJson& tools, const RequestJson& name) {
  return std::ranges::any_of(
      tools, [&](const RequestJson& tool) { return tool["function"]["name"] == name; });
}

// {"type": "function", "function": {"name": NAME}}
std::string named_tool_of(RequestFields& fields, const RequestJson& choice,
                          const RequestJson& tools) {
  if (!choice.is_object()) {
    fields.wrong("tool_choice",
                 "\"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": "
                 "{\"name\": NAME}}",
                 choice);
  }
  RequestFields named(choice, "tool_choice");
  const RequestJson& type = named.required("type");
  if (type != "function") named.wrong("type", "\"function\"", type);
  RequestFields function(named.required("function"), "tool_choice.function");
  const RequestJson& name = function.required("name");
  if (!has_tool(tools, name)) function.wrong("name", "that of one of the tools", name);
  function.refuse_others();
  named.refuse_others();
  return name.get<std::string>();
}

void read_tool_choice(RequestFields& fields, CompletionRequest& request) {
  const RequestJson* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  RequestJson& tools = request.chat.tools;
  if (*choice == "none") {
    tools = nullptr;
    return;
  }
  if (tools.is_null()) fields.wrong("tool_choice", "none without tools", *choice);
  if (*choice == "auto") return;
  request.tool_choice.is_forced = true;
  if (*choice != "required") request.tool_choice.name = named_tool_of(fields, *choice, tools);
}

RequestJson template_arguments_of(RequestFields& fields) {
  const RequestJson* given = fields.find("chat_template_kwargs");
  if (given == nullptr || given->empty()) return nullptr;
  if (!given->is_object()) fields.wrong("chat_template_kwargs", "an object", *given);
  return *given;
}

}  // namespace

void read_chat_fields(RequestFields& fields, CompletionRequest& request) {
  request.messages = messages_of_request(fields);
  request.chat.add_generation_prompt = fields.flag("add_generation_prompt").value_or(true);
  request.chat.tools = tools_of_request(fields);
  read_tool_choice(fields, request);
  request.chat.arguments = template_arguments_of(fields);
  request.parallel_tool_calls = fields.flag("parallel_tool_calls").value_or(true);
}

ReplyFormat reply_format_of(RequestFields& fields) {
  const RequestJson* value = fields.find("response_format");
  if (value == nullptr) return {};
  RequestFields format(*value, "response_format");
  const RequestJson& type = format.required("type");
  ReplyFormat result;
  if (type == "json_object") {
    result.kind = ReplyFormat::Kind::json_object;
  } else if (type == "json_schema") {
    result.kind = ReplyFormat::Kind::json_schema;
    RequestFields named(format.required("json_schema"), "response_format.json_schema");
    named.ignore({"name", "description", "strict"});  // the schema is always followed
    const RequestJson& schema = named.required("schema");
    if (!schema.is_object()) named.wrong("schema", "an object", schema);
    result.schema = json_text(schema);
    named.refuse_others();
  } else if (type != "text") {
    format.wrong("type", "text, json_object or json_schema", type);
  }
  format.refuse_others();
  return result;
}

}  // namespace clora
