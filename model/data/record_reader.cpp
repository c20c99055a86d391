#include "model/data/record_reader.hpp"

#include <algorithm>
#include <array>

#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

using Json = nlohmann::json;

// Keys with which other programs control what the model is shown or trained on. A record with one
// of them would be trained differently from what it specifies.
constexpr std::array<std::string_view, 22> kRecordKeys = {"tools",
                                                          "functions",
                                                          "tool_choice",
                                                          "function_call",
                                                          "parallel_tool_calls",
                                                          "documents",
                                                          "images",
                                                          "image",
                                                          "audio",
                                                          "videos",
                                                          "chosen",
                                                          "rejected",
                                                          "label",
                                                          "labels",
                                                          "input_ids",
                                                          "loss_mask",
                                                          "attention_mask",
                                                          "weight",
                                                          "train",
                                                          "train_on",
                                                          "system",
                                                          "chat_template_kwargs"};
constexpr std::array<std::string_view, 14> kMessageKeys = {
    "tool_calls", "tool_call_id", "function_call", "functions",
    "tools",      "audio",        "images",        "reasoning_content",
    "reasoning",  "thinking",     "train",         "training",
    "prefix",     "loss"};

template <class... Args>
[[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::invalid_data, format, std::forward<Args>(args)...);
}

bool is_blank(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || ((value.is_array() || value.is_object()) && value.empty());
}

template <std::size_t N>
void refuse_keys(const Json& object, const std::array<std::string_view, N>& keys,
                 std::string_view where) {
  for (const std::string_view key : keys) {
    const auto found = object.find(std::string(key));
    if (found == object.end() || is_blank(*found)) continue;
    bad("\"{}\" of {} is not supported, got {}; remove it if the record does not depend on it", key,
        where, json_excerpt(*found));
  }
}

std::string string_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) bad("\"{}\" is missing", key);
  if (!found->is_string()) bad("\"{}\" must be a string, got {}", key, json_excerpt(*found));
  return found->get<std::string>();
}

std::string filled_string_of(const Json& object, const char* key) {
  std::string text = string_of(object, key);
  if (text.empty()) bad("\"{}\" is empty", key);
  return text;
}

// Returns the text of a typed part of a message's content; some data sets name it "value".
std::string text_of_part(const Json& part) {
  if (!part.is_object()) {
    bad("a part of \"content\" must be an object, got {}", json_excerpt(part));
  }
  const std::string type = string_of(part, "type");
  if (type != "text") bad("a part of \"content\" must be of type text, got '{}'", type);
  return string_of(part, part.contains("text") ? "text" : "value");
}

std::string content_of(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array()) return string_of(message, "content");
  if (content->empty()) bad("\"content\" is an empty list");
  std::string text;
  for (const Json& part : *content) text += text_of_part(part);
  return text;
}

// OpenAI's flag for turns that are not trained. Only the assistant's turns are ever trained.
bool trains(const Json& message, std::string_view role) {
  const auto weight = message.find("weight");
  if (weight == message.end() || weight->is_null()) return true;
  const bool is_zero = weight->is_number() && *weight == 0;
  if (is_zero) return false;
  if (role != "assistant") {
    bad("\"weight\" of a message of the {} must be 0 or absent, got {}; only assistant messages "
        "are trained on",
        role, json_excerpt(*weight));
  }
  if (!weight->is_number() || *weight != 1) {
    bad("\"weight\" of a message must be 0 or 1, got {}", json_excerpt(*weight));
  }
  return true;
}

ChatMessage message_of(const Json& item) {
  if (!item.is_object()) bad("a message must be an object, got {}", json_excerpt(item));
  refuse_keys(item, kMessageKeys, "a message");
  ChatMessage message{string_of(item, "role"), content_of(item)};
  const std::string& role = message.role;
  if (role != "system" && role != "user" && role != "assistant") {
    bad("\"role\" must be system, user or assistant, got '{}'", role);
  }
  message.trains = trains(item, role);
  return message;
}

std::vector<ChatMessage> messages_of(const Json& list) {
  if (!list.is_array()) bad("\"messages\" must be a list, got {}", json_excerpt(list));
  if (list.empty()) bad("\"messages\" is empty");
  std::vector<ChatMessage> messages;
  for (const Json& item : list) messages.push_back(message_of(item));
  return messages;
}

}  // namespace

RecordReader::RecordReader(const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                           const RecordOptions& options)
    : tokenizer_(tokenizer), chat_template_(chat_template), options_(options) {
  require(options.max_seq_length >= 2, "records: max_seq_length must be at least 2, got {}",
          options.max_seq_length);
}

ReadRecord RecordReader::read(std::string_view line, std::string_view source,
                              std::size_t number) const {
  const Json object = [&] {
    try {
      return parse_json(line, source, {}, number);
    } catch (const Error& error) {
      bad("{}", error.what());
    }
  }();
  try {
    if (!object.is_object()) bad("a record must be a JSON object, got {}", json_excerpt(object));
    ReadRecord out = read_object(object);
    if (out.record.ids.empty()) bad("the text has no tokens");
    if (!options_.pairs) out.record.is_target.front() = 0;  // no token before it could predict it
    return out;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_data) throw;
    bad("{}: line {}: {}", source, number, error.what());
  }
}

ReadRecord RecordReader::read_object(const Json& object) const {
  refuse_keys(object, kRecordKeys, "a record");
  if (options_.pairs) return read_text_pair(object);
  if (object.contains("messages")) return read_messages(messages_of(object["messages"]));
  if (object.contains("prompt") || object.contains("completion")) return read_pair(object);
  if (object.contains("text")) return read_text(filled_string_of(object, "text"));
  std::string keys;
  for (const auto& [key, value] : object.items()) keys += (keys.empty() ? "" : ", ") + key;
  if (keys.size() > 200) keys = keys.substr(0, 200) + "...";
  bad("a record needs \"text\", \"prompt\" and \"completion\", or \"messages\"; got keys: {}",
      keys.empty() ? "none" : keys);
}

ReadRecord RecordReader::read_text_pair(const Json& object) const {
  const auto& [query_prefix, document_prefix] = *options_.pairs;
  ReadRecord out;
  if (object.contains("sentence1") || object.contains("sentence2")) {
    for (const char* key : {"sentence1", "sentence2"}) {
      append_text(out, query_prefix + filled_string_of(object, key));
    }
    const auto score = object.find("score");
    if (score == object.end() || !score->is_number()) {
      bad("\"score\" must be a number, got {}",
          score == object.end() ? "nothing" : json_excerpt(*score));
    }
    out.score = score->get<double>();
    return out;
  }
  append_text(out, query_prefix + filled_string_of(object, "anchor"));
  append_text(out, document_prefix + filled_string_of(object, "positive"));
  if (object.contains("negative")) {
    append_text(out, document_prefix + filled_string_of(object, "negative"));
  }
  return out;
}

void RecordReader::append_text(ReadRecord& out, const std::string& text) const {
  look_for_special(out, text);
  std::size_t most = options_.max_seq_length;
  if (options_.max_positions > 0) most = std::min(most, options_.max_positions);
  const CutText encoded =
      tokenizer_.encode_at_most(text, most, {.parse_special = options_.parse_special});
  if (encoded.ids.empty()) bad("a text has no tokens");
  out.is_cut = out.is_cut || encoded.cut > 0;
  Record& record = out.record;
  const std::size_t begin = record.ids.size();
  record.ids.insert(record.ids.end(), encoded.ids.begin(), encoded.ids.end());
  record.is_target.resize(record.ids.size(), 0);
  record.is_target[begin] = 1;
}

ReadRecord RecordReader::read_text(const std::string& text) const {
  ReadRecord out;
  append(out, text, true);
  append_eos(out.record);
  return out;
}

ReadRecord RecordReader::read_pair(const Json& object) const {
  const std::string prompt = string_of(object, "prompt");
  const std::string completion = filled_string_of(object, "completion");
  if (options_.apply_chat_template) {
    return read_messages({{"user", prompt}, {"assistant", completion}});
  }
  ReadRecord out;
  append(out, prompt, false);
  append(out, completion, true);
  append_eos(out.record);
  return out;
}

ReadRecord RecordReader::read_messages(const std::vector<ChatMessage>& messages) const {
  if (chat_template_ == nullptr) {
    bad("messages need a chat template: {}", options_.chat_template_problem.empty()
                                                 ? "the model has no supported one"
                                                 : options_.chat_template_problem);
  }
  ReadRecord out;
  for (const ChatMessage& message : messages) look_for_special(out, message.content);
  try {
    const ChatOptions how{.parse_special = options_.parse_special};
    ChatTokens tokens = chat_template_->encode(messages, how, tokenizer_);
    out.record = {std::move(tokens.ids), std::move(tokens.is_target)};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    bad("{}", error.what());  // the template refuses this conversation
  }
  return out;
}

// Prompt and completion are tokenised separately; bos is prepended only to the first.
void RecordReader::append(ReadRecord& out, const std::string& text, bool is_target) const {
  if (text.empty()) return;
  look_for_special(out, text);
  Record& record = out.record;
  const EncodeOptions how{.parse_special = options_.parse_special,
                          .continues = !record.ids.empty()};
  const std::vector<std::int32_t> ids = tokenizer_.encode(text, how);
  record.ids.insert(record.ids.end(), ids.begin(), ids.end());
  record.is_target.resize(record.ids.size(), is_target ? 1 : 0);
}

// No-op if the text ends in a parsed eos.
void RecordReader::append_eos(Record& record) const {
  if (!options_.append_eos) return;
  require(tokenizer_.eos().has_value(),
          "records: append_eos is on, but the tokenizer has no eos token; turn it off");
  if (options_.parse_special && !record.ids.empty() && record.ids.back() == *tokenizer_.eos()) {
    return;
  }
  record.ids.push_back(*tokenizer_.eos());
  record.is_target.push_back(1);
}

void RecordReader::look_for_special(ReadRecord& out, std::string_view text) const {
  if (options_.parse_special || out.special) return;
  out.special = tokenizer_.first_special(text);
}

}  // namespace clora
