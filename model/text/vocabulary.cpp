#include "model/text/vocabulary.hpp"

#include <algorithm>
#include <charconv>

#include "model/text/space_mark.hpp"
#include "model/text/utf8.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

// GPT-2 writes bytes as printable characters: the printable ones of Latin-1 unchanged, the others,
// in order, from U+0100 on.
bool is_own_character(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

// byte_of[code point] = byte, or -1.
std::vector<int> byte_alphabet() {
  std::vector<int> byte_of(0x100 + 256, -1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    byte_of[static_cast<std::size_t>(is_own_character(byte) ? byte : next++)] = byte;
  }
  return byte_of;
}

// Returns the bytes of a token in GPT-2's alphabet. A token with other characters (added by hand)
// represents its own text.
std::string decode_byte_level(const std::string& token, const std::vector<int>& byte_of) {
  std::string bytes;
  for (std::size_t i = 0; i < token.size();) {
    const Utf8Char c = read_utf8(token, i);
    const auto code = static_cast<std::size_t>(c.code_point);
    if (c.code_point < 0 || code >= byte_of.size() || byte_of[code] < 0) return token;
    bytes += static_cast<char>(byte_of[code]);
    i += c.length;
  }
  return bytes;
}

std::string with_spaces(const std::string& token) {
  std::string bytes;
  for (std::size_t i = 0; i < token.size();) {
    if (token.compare(i, kSpaceMark.size(), kSpaceMark) == 0) {
      bytes += ' ';
      i += kSpaceMark.size();
    } else {
      bytes += token[i++];
    }
  }
  return bytes;
}

// Returns the byte of "<0xXX>", else -1.
int byte_of_hex_token(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token.back() != '>') return -1;
  int byte = -1;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return error == std::errc() && end == token.data() + 5 ? byte : -1;
}

// The texts before which the WordPiece decoder of tokenizers, with cleanup, removes a space.
bool joins_left(std::string_view token) {
  constexpr std::array<std::string_view, 9> kJoining = {".",  "?",  "!",   ",",  "n't",
                                                        "'m", "'s", "'ve", "'re"};
  return std::ranges::any_of(kJoining, [&](std::string_view t) { return token.starts_with(t); });
}

}  // namespace

Vocabulary::Vocabulary(TokenizerSpec& spec)
    : tokens_(std::move(spec.tokens)), types_(std::move(spec.types)) {
  if (tokens_.empty()) fail(ErrorCode::invalid_file, "{}: no tokens", spec.source);
  if (types_.empty()) types_.assign(tokens_.size(), TokenType::normal);
  if (types_.size() != tokens_.size()) {
    fail(ErrorCode::invalid_file, "{}: {} tokens must have the same number of types, got {}",
         spec.source, tokens_.size(), types_.size());
  }
  ids_.reserve(tokens_.size());
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    ids_.emplace(tokens_[i], static_cast<std::int32_t>(i));  // the first of equal texts is kept
  }
  byte_tokens_.fill(-1);
  bytes_.resize(tokens_.size());
  if (spec.algorithm == TokenizerAlgorithm::byte_level_bpe) {
    add_byte_level();
  } else if (spec.algorithm == TokenizerAlgorithm::word_piece) {
    add_word_pieces(spec.word_piece);
  } else {
    add_sentencepiece();
  }
}

void Vocabulary::add_byte_level() {
  const std::vector<int> byte_of = byte_alphabet();
  for (std::int32_t id = 0; id < size(); ++id) {
    std::string& bytes = bytes_[static_cast<std::size_t>(id)];
    const bool plain = type(id) == TokenType::normal || type(id) == TokenType::unused;
    bytes = plain ? decode_byte_level(text(id), byte_of) : text(id);
  }
  for (std::size_t code = 0; code < byte_of.size(); ++code) {
    if (byte_of[code] < 0) continue;
    std::string symbol;
    append_utf8(static_cast<std::int32_t>(code), symbol);
    byte_tokens_[static_cast<std::size_t>(byte_of[code])] = find(symbol);
  }
}

void Vocabulary::add_sentencepiece() {
  for (std::int32_t id = 0; id < size(); ++id) {
    std::string& bytes = bytes_[static_cast<std::size_t>(id)];
    const int byte = type(id) == TokenType::byte ? byte_of_hex_token(text(id)) : -1;
    if (byte >= 0) {
      bytes = static_cast<char>(byte);
      byte_tokens_[static_cast<std::size_t>(byte)] = id;
    } else {
      bytes = is_special(id) ? text(id) : with_spaces(text(id));
    }
  }
}

// A token that begins a word stands for it with the space before it, special tokens included.
void Vocabulary::add_word_pieces(const WordPieceRules& rules) {
  for (std::int32_t id = 0; id < size(); ++id) {
    std::string& bytes = bytes_[static_cast<std::size_t>(id)];
    if (text(id).starts_with(rules.continuing_prefix)) {
      bytes = text(id).substr(rules.continuing_prefix.size());
    } else {
      bytes = rules.decoder_cleanup && joins_left(text(id)) ? text(id) : " " + text(id);
    }
  }
}

std::int32_t Vocabulary::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? -1 : found->second;
}

}  // namespace clora
