#include "serving/forced_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "clora/runtime/files/json.hpp"
#include "serving/request_fields.hpp"

namespace clora {
namespace {

// Keywords whose values are objects of schemas by name, and those whose values are no schemas.
constexpr std::array<std::string_view, 5> kNamedSchemas{"properties", "$defs", "definitions",
                                                        "patternProperties", "dependentSchemas"};
constexpr std::array<std::string_view, 4> kPlainValues{"enum", "const", "default", "examples"};

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// References to parts of the schema become references to the same parts at `place`.
void move_references(RequestJson& schema, const std::string& place) {
  if (schema.is_array()) {
    for (RequestJson& each : schema) move_references(each, place);
  }
  if (!schema.is_object()) return;
  for (auto& [key, value] : schema.items()) {
    if (key == "$ref" && value.is_string()) {
      const auto reference = value.get<std::string>();
      if (reference.starts_with('#')) value = place + reference.substr(1);
    } else if (contains(kNamedSchemas, key) && value.is_object()) {
      for (auto& [name, each] : value.items()) move_references(each, place);
    } else if (!contains(kPlainValues, key)) {
      move_references(value, place);
    }
  }
}

// The schema of the arguments, which are at `place` in the schema of all calls.
RequestJson arguments_schema(const RequestJson& function, std::size_t tool,
                             const std::string& place) {
  const auto found = function.find("parameters");
  if (found == function.end() || found->is_null()) {
    return {
        {"type", "object"}, {"properties", RequestJson::object()}, {"additionalProperties", false}};
  }
  const RequestFields fields(function, fmt::format("tools[{}].function", tool));
  RequestJson schema = *found;
  if (!schema.is_object()) fields.wrong("parameters", "a JSON Schema of an object", schema);
  if (!schema.contains("type")) schema["type"] = "object";
  if (schema["type"] != "object") fields.wrong("parameters", "a JSON Schema of an object", schema);
  move_references(schema, place);
  return schema;
}

RequestJson call_schema(const RequestJson& name, const char* key, RequestJson arguments) {
  RequestJson properties;
  properties["name"]["const"] = name;
  properties[key] = std::move(arguments);
  RequestJson schema;
  schema["type"] = "object";
  schema["properties"] = std::move(properties);
  schema["required"] = RequestJson::array({"name", key});
  schema["additionalProperties"] = false;
  return schema;
}

SchemaFrame frame_of(ToolCallForm form) {
  if (form == ToolCallForm::hermes) {
    return {"<tool_call>\n", "\n</tool_call>\n<tool_call>\n", "\n</tool_call>"};
  }
  if (form == ToolCallForm::llama3) return {"", "; ", ""};
  return {"[", ", ", "]"};
}

}  // namespace

ReplyFormat forced_call_format(ToolCallForm form, const CompletionRequest& request) {
  if (form == ToolCallForm::none) {
    throw RequestError(
        {.param = "tool_choice", .code = "unsupported_parameter"},
        "tool_choice must be \"auto\" or \"none\" with this model: its chat template "
        "teaches none of the forms of calls that are known (Hermes and Qwen, Llama 3, "
        "Mistral), so that no call can be required");
  }
  const ToolChoice& choice = request.tool_choice;
  const char* key = form == ToolCallForm::llama3 ? "parameters" : "arguments";
  RequestJson calls = RequestJson::array();
  for (std::size_t i = 0; i < request.chat.tools.size(); ++i) {
    const RequestJson& function = request.chat.tools[i]["function"];
    if (!choice.name.empty() && function["name"] != choice.name) continue;
    const std::string place = fmt::format("#/anyOf/{}/properties/{}", calls.size(), key);
    calls.push_back(call_schema(function["name"], key, arguments_schema(function, i, place)));
  }
  RequestJson schema;
  schema["anyOf"] = std::move(calls);
  ReplyFormat format{
      .kind = ReplyFormat::Kind::json_schema, .schema = json_text(schema), .frame = frame_of(form)};
  if (!choice.name.empty() || !request.parallel_tool_calls) format.frame.between.clear();
  return format;
}

}  // namespace clora
