#include "serving/tool_calls.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <random>

#include "clora/runtime/files/json.hpp"

namespace clora {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>";
constexpr std::string_view kMistralMark = "[TOOL_CALLS]";
constexpr std::string_view kPythonTag = "<|python_tag|>";
constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Ids of 9 letters and digits, which is what Mistral's templates require of them.
std::string random_id() {
  constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::random_device random;
  std::string id(9, ' ');
  for (char& c : id) c = kLetters[random() % kLetters.size()];
  return id;
}

// The length of the JSON object or array at the start of a text; nothing if it does not end.
std::optional<std::size_t> json_length(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return std::nullopt;
}

std::optional<Json> parsed(std::string_view text) {
  try {
    return parse_json<Json>(text, "a call", {.keys = 1024});
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Arguments are an object, or its JSON text.
std::optional<std::string> arguments_text(const Json& value) {
  if (value.is_object()) return json_text(value);
  if (!value.is_string()) return std::nullopt;
  const auto inner = parsed(value.get_ref<const std::string&>());
  if (!inner || !inner->is_object()) return std::nullopt;
  return value.get<std::string>();
}

std::optional<ToolCall> call_of(const Json& value, const std::vector<std::string>& names) {
  if (!value.is_object() || !value.contains("name") || !value["name"].is_string()) return {};
  ToolCall call{.id = random_id(), .name = value["name"].get<std::string>()};
  if (std::ranges::find(names, call.name) == names.end()) return std::nullopt;
  const char* key = value.contains("arguments") ? "arguments" : "parameters";
  const auto arguments = value.contains(key) ? arguments_text(value[key]) : "{}";
  if (!arguments) return std::nullopt;
  call.arguments = *arguments;
  return call;
}

// The JSON texts of the calls; none if the text has another form.
std::vector<std::string_view> hermes_texts(std::string_view text) {
  std::vector<std::string_view> texts;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    if (!text.starts_with(kOpen)) return {};
    text.remove_prefix(kOpen.size());
    const std::size_t end = text.find(kClose);
    texts.push_back(trimmed(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + kClose.size());
  }
  return texts;
}

std::vector<std::string_view> llama3_texts(std::string_view text) {
  std::vector<std::string_view> texts;
  text = trimmed(text);
  if (text.starts_with(kPythonTag)) text = trimmed(text.substr(kPythonTag.size()));
  while (!text.empty()) {
    const auto length = json_length(text);
    if (!length) return {};
    texts.push_back(text.substr(0, *length));
    text = trimmed(text.substr(*length));
    if (!text.empty() && text.front() != ';') return {};
    if (!text.empty()) text = trimmed(text.substr(1));
  }
  return texts;
}

std::vector<std::string> mistral_texts(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with(kMistralMark)) text = trimmed(text.substr(kMistralMark.size()));
  const auto list = parsed(text);
  if (!list || !list->is_array()) return {};
  std::vector<std::string> texts;
  for (const Json& each : *list) texts.push_back(json_text(each));
  return texts;
}

std::vector<std::string> texts_of(ToolCallForm form, std::string_view text) {
  if (form == ToolCallForm::mistral) return mistral_texts(text);
  const auto views = form == ToolCallForm::hermes ? hermes_texts(text) : llama3_texts(text);
  return {views.begin(), views.end()};
}

// The position from which a text may be the beginning of `mark`, with the blanks before it.
std::size_t possible_start(std::string_view text, std::string_view mark) {
  std::size_t start = text.size();
  for (std::size_t length = std::min(text.size(), mark.size() - 1); length > 0; --length) {
    if (!text.ends_with(mark.substr(0, length))) continue;
    start = text.size() - length;
    break;
  }
  while (start > 0 && kBlanks.find(text[start - 1]) != std::string_view::npos) --start;
  return start;
}

}  // namespace

ToolCallForm tool_call_form_of(std::string_view chat_template) {
  const auto has = [&](std::string_view part) {
    return chat_template.find(part) != std::string_view::npos;
  };
  if (has(kOpen)) return ToolCallForm::hermes;
  if (has(kMistralMark)) return ToolCallForm::mistral;
  if (has("<|start_header_id|>") && has("\"parameters\"")) return ToolCallForm::llama3;
  return ToolCallForm::none;
}

ToolCallReader::ToolCallReader(ToolCallForm form, std::vector<std::string> names)
    : form_(form), names_(std::move(names)) {
  is_content_ = form == ToolCallForm::none || names_.empty();
}

std::string ToolCallReader::push(std::string_view piece) {
  if (is_content_) return std::string(piece);
  held_ += piece;
  if (is_call_) return {};
  return form_ == ToolCallForm::hermes ? push_hermes() : push_json();
}

std::string ToolCallReader::push_hermes() {
  const std::size_t mark = held_.find(kOpen);
  is_call_ = mark != std::string::npos;
  std::size_t end = is_call_ ? mark : possible_start(held_, kOpen);
  while (is_call_ && end > 0 && kBlanks.find(held_[end - 1]) != std::string_view::npos) --end;
  std::string content = held_.substr(0, end);
  held_.erase(0, end);
  return content;
}

std::string ToolCallReader::push_json() {
  const std::size_t first = held_.find_first_not_of(kBlanks);
  if (first == std::string::npos) return {};
  const std::string_view text = std::string_view(held_).substr(first);
  const bool is_llama3 = form_ == ToolCallForm::llama3;
  is_call_ = text.front() == (is_llama3 ? '{' : '[');
  const std::string_view tag = kPythonTag.substr(0, text.size());
  if (is_call_ || (is_llama3 && text.starts_with(tag))) return {};
  is_content_ = true;
  return std::exchange(held_, {});
}

std::vector<ToolCall> ToolCallReader::calls() const {
  std::vector<ToolCall> calls;
  for (const std::string& text : texts_of(form_, held_)) {
    const auto value = parsed(text);
    const auto call = value ? call_of(*value, names_) : std::nullopt;
    if (!call) return {};
    calls.push_back(*call);
  }
  return calls;
}

ToolCallReader::Rest ToolCallReader::finish() {
  if (is_content_) return {};
  Rest rest{.content = {}, .calls = calls()};
  if (rest.calls.empty()) rest.content = std::exchange(held_, {});
  held_.clear();
  return rest;
}

}  // namespace clora
