#include "model/records.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "runtime/error.hpp"

namespace clora {

namespace {

using Json = nlohmann::json;

template <class... Args>
[[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::invalid_data, format, std::forward<Args>(args)...);
}

std::string string_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) bad("\"{}\" is missing", key);
  if (!found->is_string()) bad("\"{}\" must be a string, got {}", key, found->type_name());
  return found->get<std::string>();
}

std::string filled_string_of(const Json& object, const char* key) {
  std::string text = string_of(object, key);
  if (text.empty()) bad("\"{}\" is empty", key);
  return text;
}

// A typed part of a message's content; some data sets call its text "value".
std::string text_of_part(const Json& part) {
  if (!part.is_object()) bad("a part of \"content\" must be an object, got {}", part.type_name());
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

std::vector<ChatMessage> messages_of(const Json& list) {
  if (!list.is_array()) bad("\"messages\" must be a list, got {}", list.type_name());
  if (list.empty()) bad("\"messages\" is empty");
  std::vector<ChatMessage> messages;
  for (const Json& item : list) {
    if (!item.is_object()) bad("a message must be an object, got {}", item.type_name());
    messages.push_back({string_of(item, "role"), content_of(item)});
    const std::string& role = messages.back().role;
    if (role != "system" && role != "user" && role != "assistant") {
      bad("\"role\" must be system, user or assistant, got '{}'", role);
    }
  }
  return messages;
}

// Turns the objects of a data set into records.
class RecordReader {
 public:
  RecordReader(const Tokenizer& tokenizer, const ChatTemplate* chat_template,
               const RecordOptions& options)
      : tokenizer_(tokenizer), chat_template_(chat_template), options_(options) {
    require(options.max_seq_length >= 2, "records: max_seq_length must be at least 2, got {}",
            options.max_seq_length);
  }

  Record read(std::string_view line) const {
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (object.is_discarded()) bad("not valid JSON");
    if (!object.is_object()) bad("a record must be a JSON object, got {}", object.type_name());
    Record record = read_object(object);
    if (record.ids.empty()) bad("the text has no tokens");
    record.is_target.front() = 0;  // nothing stands before it that could predict it
    return record;
  }

 private:
  Record read_object(const Json& object) const {
    if (object.contains("messages")) return read_messages(messages_of(object["messages"]));
    if (object.contains("prompt") || object.contains("completion")) return read_pair(object);
    if (object.contains("text")) return read_text(filled_string_of(object, "text"));
    std::string keys;
    for (const auto& [key, value] : object.items()) keys += (keys.empty() ? "" : ", ") + key;
    bad("a record needs \"text\", \"prompt\" and \"completion\", or \"messages\"; got keys: {}",
        keys.empty() ? "none" : keys);
  }

  Record read_text(const std::string& text) const {
    Record record;
    append(record, tokenizer_.encode(text), true);
    append_eos(record);
    return record;
  }

  Record read_pair(const Json& object) const {
    const std::string prompt = string_of(object, "prompt");
    const std::string completion = filled_string_of(object, "completion");
    if (options_.apply_chat_template) {
      return read_messages({{"user", prompt}, {"assistant", completion}});
    }
    Record record;
    append(record, tokenizer_.encode(prompt), false);
    EncodeOptions behind;
    behind.continues = !prompt.empty();
    append(record, tokenizer_.encode(completion, behind), true);
    append_eos(record);
    return record;
  }

  Record read_messages(const std::vector<ChatMessage>& messages) const {
    if (chat_template_ == nullptr) {
      bad("messages need a chat template, and the model has none that is known");
    }
    ChatTokens tokens = chat_template_->encode(messages, false, tokenizer_);
    return {std::move(tokens.ids), std::move(tokens.is_target)};
  }

  void append_eos(Record& record) const {
    if (!options_.append_eos) return;
    require(tokenizer_.eos().has_value(),
            "records: append_eos is on, and the tokenizer has no eos token; turn it off");
    append(record, {*tokenizer_.eos()}, true);
  }

  static void append(Record& record, const std::vector<std::int32_t>& ids, bool is_target) {
    record.ids.insert(record.ids.end(), ids.begin(), ids.end());
    record.is_target.resize(record.ids.size(), is_target ? 1 : 0);
  }

  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_template_;
  const RecordOptions& options_;
};

void add_record(Record record, std::size_t max_seq_length, Records& out) {
  if (record.ids.size() > max_seq_length) {
    record.ids.resize(max_seq_length);
    record.is_target.resize(max_seq_length);
    ++out.truncated;
  }
  const auto& targets = record.is_target;
  if (std::find(targets.begin(), targets.end(), 1) == targets.end()) {
    ++out.skipped;
    return;
  }
  out.records.push_back(std::move(record));
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

std::size_t Records::target_count() const {
  std::size_t count = 0;
  for (const Record& record : records) {
    count += std::accumulate(record.is_target.begin(), record.is_target.end(), std::size_t{0});
  }
  return count;
}

Record read_record(std::string_view line, const Tokenizer& tokenizer,
                   const ChatTemplate* chat_template, const RecordOptions& options) {
  return RecordReader(tokenizer, chat_template, options).read(line);
}

Records load_records(const std::filesystem::path& path, const Tokenizer& tokenizer,
                     const ChatTemplate* chat_template, const RecordOptions& options) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) {
    fail(ErrorCode::not_found, "records: no data set at '{}'", path.string());
  }
  const RecordReader reader(tokenizer, chat_template, options);
  Records out;
  std::string line;
  std::size_t number = 0, blank = 0, read = 0;  // blank: a line that only the file's end may follow
  const auto bad_line = [&](std::size_t at, std::string_view reason) {
    bad("{}:{}: {}", path.string(), at, reason);
  };
  while ((options.limit == 0 || read < options.limit) && std::getline(file, line)) {
    ++number;
    if (is_blank(line)) {
      if (blank == 0) blank = number;
      continue;
    }
    if (blank != 0) bad_line(blank, "an empty line before the end of the file");
    try {
      add_record(reader.read(line), options.max_seq_length, out);
      ++read;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_data) throw;
      bad_line(number, error.what());
    }
  }
  if (file.bad()) fail(ErrorCode::io, "records: '{}' could not be read", path.string());
  if (read == 0) bad("{}: the data set has no records", path.string());
  return out;
}

std::optional<std::filesystem::path> find_split(const std::filesystem::path& folder,
                                                std::string_view split) {
  const std::filesystem::path path = folder / (std::string(split) + ".jsonl");
  if (!std::filesystem::is_regular_file(path)) return std::nullopt;
  return path;
}

}  // namespace clora
