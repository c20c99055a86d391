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

inline std::vector<ChatMessage> messages_of(const nlohmann::json& list) {
  std::vector<ChatMessage> messages;
  for (const auto& m : list) messages.push_back({m.at("role"), m.at("content")});
  return messages;
}

// The text that the template renders, or null if it refuses the conversation.
inline nlohmann::json rendered_or_null(const ChatTemplate& chat,
                                       const std::vector<ChatMessage>& messages,
                                       const ChatOptions& options) {
  try {
    return chat.render(messages, options).text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    return nullptr;
  }
}

// Expects the rows of one style in a file written by tests/reference/chat_templates.py.
inline void expect_rows(const ChatTemplate& chat, std::string_view name, const nlohmann::json& file,
                        const nlohmann::json& rows) {
  std::size_t different = 0;
  for (const auto& row : rows) {
    const auto& messages = file.at("conversations")[row[0].get<std::size_t>()];
    const ChatOptions options{.add_generation_prompt = row[1], .enable_thinking = row[2]};
    const auto ours = rendered_or_null(chat, messages_of(messages), options);
    if (ours == row[3] || ++different > 5) continue;
    ADD_FAILURE() << name << " " << messages << "\nours " << ours << "\nJinja's " << row[3];
  }
  EXPECT_EQ(different, 0u) << name;
}

// Expects the renderings of a file from our own templates of those names; returns their count.
inline std::size_t expect_renderings(const std::filesystem::path& path,
                                     const Tokenizer& tokenizer) {
  const auto file = nlohmann::json::parse(read_file(path));
  std::size_t count = 0;
  for (const auto& [name, rows] : file.at("renderings").items()) {
    expect_rows(ChatTemplate::named(name, tokenizer), name, file, rows);
    count += rows.size();
  }
  return count;
}

}  // namespace clora::test
