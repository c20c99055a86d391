// ChatSession: a conversation that is kept in a file, so that it goes on when the chat is started
// again. FILE has its messages as JSON, as a record of training data:
//   {"messages": [{"role": "system", "content": "..."}, {"role": "user", "content": "..."}, ...]}
// and FILE.safetensors the keys and values that are computed of it (Engine::save_prefix()), without
// which the conversation is only slower to go on. Threads: one at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "clora/model/generation/generator.hpp"
#include "clora/model/text/chat_message.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

class ChatSession {
 public:
  // An empty path: nothing is read or written. Errors: invalid_file, with file and key, if there is
  // a file that is not a conversation: a system message or none, then user and assistant in turn.
  explicit ChatSession(std::filesystem::path file);

  // Those that the file had; empty if there was none.
  const std::vector<ChatMessage>& messages() const noexcept { return messages_; }

  // Loads the keys and values, if there are any. Warns if they do not fit.
  void load_keys(Generator& generator, Output& output) const;
  // Errors: io.
  void save_messages(std::span<const ChatMessage> messages) const;
  // `tokens`: of the conversation, as far as it was generated. Warns if they cannot be saved.
  void save_keys(Generator& generator, std::span<const std::int32_t> tokens, Output& output) const;

 private:
  std::filesystem::path keys_file() const;

  std::filesystem::path file_;
  std::vector<ChatMessage> messages_;
};

}  // namespace clora
