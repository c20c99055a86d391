// Renderings of chat templates by Jinja, as tests/reference/chat_templates.py writes them, and a
// tiny tokenizer with the special tokens of all styles.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clora/model/text/chat_template.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora::test {

// The tiny vocabulary with the special tokens of the other styles besides ChatML.
inline Tokenizer with_chat_marks(std::initializer_list<const char*> more = {}) {
  TokenizerSpec spec = byte_level_spec();
  const auto add = [&](const char* mark) {
    spec.tokens.push_back(mark);
    spec.types.push_back(TokenType::control);
  };
  for (const char* mark : {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
                           "<start_of_turn>", "<end_of_turn>"})
    add(mark);
  for (const char* mark : more) add(mark);
  return Tokenizer(std::move(spec));
}

inline std::string text_of(const std::vector<ChatPiece>& pieces) {
  std::string text;
  for (const ChatPiece& piece : pieces) text += piece.text;
  return text;
}

inline std::vector<ChatMessage> messages_of(const nlohmann::json& list) {
  std::vector<ChatMessage> messages;
  for (const auto& m : list) messages.push_back({m.at("role"), m.at("content")});
  return messages;
}

// The text that our style renders, or null if it refuses the conversation.
inline nlohmann::json rendered_or_null(const ChatTemplate& chat,
                                       const std::vector<ChatMessage>& messages,
                                       const ChatOptions& options) {
  try {
    return text_of(chat.render(messages, options));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    return nullptr;
  }
}

// Expects the renderings of a file written by tests/reference/chat_templates.py; returns their
// count.
inline std::size_t expect_renderings(const std::filesystem::path& path,
                                     const Tokenizer& tokenizer) {
  const auto file = nlohmann::json::parse(read_file(path));
  std::size_t count = 0, different = 0;
  for (const auto& [name, rows] : file.at("renderings").items()) {
    const ChatTemplate chat = ChatTemplate::named(name, tokenizer);
    for (const auto& row : rows) {
      const auto& messages = file.at("conversations")[row[0].get<std::size_t>()];
      const ChatOptions options{.add_generation_prompt = row[1], .enable_thinking = row[2]};
      const auto ours = rendered_or_null(chat, messages_of(messages), options);
      ++count;
      if (ours == row[3] || ++different > 5) continue;
      ADD_FAILURE() << name << " " << messages << "\nours " << ours << "\nJinja's " << row[3];
    }
  }
  EXPECT_EQ(different, 0u);
  return count;
}

}  // namespace clora::test
