// Vocabulary: token ids, their texts as written in the model's files, and the bytes that they
// represent. Immutable after construction; all reads are thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "clora/model/text/tokenizer_spec.hpp"

namespace clora {

class Vocabulary {
 public:
  // Moves tokens and types out of the spec. Throws Error(invalid_file) if there are no tokens, or
  // if their number differs from that of the types.
  explicit Vocabulary(TokenizerSpec& spec);
  Vocabulary(const Vocabulary&) = delete;  // the index points into the texts
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }
  bool contains(std::int32_t id) const { return id >= 0 && id < size(); }
  const std::string& text(std::int32_t id) const { return tokens_[static_cast<std::size_t>(id)]; }
  const std::string& bytes(std::int32_t id) const { return bytes_[static_cast<std::size_t>(id)]; }
  TokenType type(std::int32_t id) const { return types_[static_cast<std::size_t>(id)]; }
  bool is_special(std::int32_t id) const {
    return type(id) == TokenType::control || type(id) == TokenType::unknown;
  }
  bool is_text(std::int32_t id) const { return !is_special(id) && type(id) != TokenType::byte; }

  // Returns the token with this text, or -1 if there is none.
  std::int32_t find(std::string_view text) const;

  // Returns the token that represents one raw byte, or -1 if there is none.
  std::int32_t byte_token(unsigned char byte) const { return byte_tokens_[byte]; }

 private:
  void add_byte_level();
  void add_sentencepiece();
  void add_word_pieces(const WordPieceRules& rules);

  std::vector<std::string> tokens_, bytes_;
  std::vector<TokenType> types_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
  std::array<std::int32_t, 256> byte_tokens_;
};

}  // namespace clora
