#include "tools/clora/commands/chat_session.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using nlohmann::json;

ChatMessage message_of(const JsonKeys& keys) {
  ChatMessage message{.role = keys.text("role"), .content = keys.text("content")};
  for (const auto& [key, value] : keys.value().items()) {
    if (key == "role" || key == "content") continue;
    fail(ErrorCode::unsupported, "{}: {} must have role and content only, got '{}'", keys.source(),
         keys.name_of_key(""), key);
  }
  return message;
}

// A system message or none, then user and assistant in turn.
void require_turns(const std::vector<ChatMessage>& messages, const std::string& source) {
  const std::size_t first = !messages.empty() && messages[0].role == "system" ? 1 : 0;
  for (std::size_t i = first; i < messages.size(); ++i) {
    const char* const wanted = (i - first) % 2 == 0 ? "user" : "assistant";
    if (messages[i].role == wanted) continue;
    fail(ErrorCode::invalid_file, "{}: messages[{}].role must be '{}', got '{}'", source, i, wanted,
         messages[i].role.substr(0, 40));
  }
  if ((messages.size() - first) % 2 == 0) return;
  fail(ErrorCode::invalid_file, "{}: the last message must be of the assistant", source);
}

std::vector<ChatMessage> read_messages(const std::filesystem::path& file) {
  const json document = read_json_file(file);
  const JsonKeys keys(document, file.string());
  const json* const list = keys.find("messages");
  if (list == nullptr || !list->is_array()) {
    keys.wrong_kind("messages", "a list", list == nullptr ? json() : *list);
  }
  std::vector<ChatMessage> messages;
  for (const json& each : *list) {
    messages.push_back(
        message_of({each, file.string(), fmt::format("messages[{}]", messages.size())}));
  }
  require_turns(messages, file.string());
  return messages;
}

}  // namespace

ChatSession::ChatSession(std::filesystem::path file) : file_(std::move(file)) {
  if (!file_.empty() && std::filesystem::exists(file_)) messages_ = read_messages(file_);
}

std::filesystem::path ChatSession::keys_file() const { return file_.string() + ".safetensors"; }

void ChatSession::load_keys(Generator& generator, Output& output) const {
  if (messages_.empty() || !std::filesystem::exists(keys_file())) return;
  try {
    const std::int64_t tokens = generator.load_prefix(keys_file());
    output.detail("{} tokens of the conversation need not be computed again", tokens);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device_lost) throw;
    output.warning("{}; the conversation is computed again", error.what());
  }
}

void ChatSession::save_messages(std::span<const ChatMessage> messages) const {
  if (file_.empty()) return;
  auto list = nlohmann::ordered_json::array();
  for (const auto& each : messages)
    list.push_back({{"role", each.role}, {"content", each.content}});
  write_file_atomically(file_, json_text(nlohmann::ordered_json{{"messages", list}}, 2) + "\n");
}

void ChatSession::save_keys(Generator& generator, std::span<const std::int32_t> tokens,
                            Output& output) const {
  if (file_.empty() || tokens.empty()) return;
  try {
    generator.save_prefix(keys_file(), tokens);
  } catch (const Error& error) {
    switch (error.code()) {
      case ErrorCode::not_found:    // less than a page
      case ErrorCode::unsupported:  // layers with a state
        return output.detail("keys and values of the conversation are not saved: {}", error.what());
      case ErrorCode::device_lost:
        throw;
      default:
        output.warning("{}; the conversation was saved without its keys and values", error.what());
    }
  }
}

}  // namespace clora
