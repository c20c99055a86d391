#include "model/text/word_piece/word_piece_tokenizer.hpp"

#include <algorithm>

#include "model/text/word_piece/bert_normalizer.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

bool continues_character(char byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

WordPieceTokenizer::WordPieceTokenizer(const TokenizerSpec& spec, const Vocabulary& vocabulary)
    : rules_(spec.word_piece) {
  if (!spec.unknown) {
    fail(ErrorCode::invalid_file, "{}: a WordPiece tokenizer needs an unknown token ([UNK])",
         spec.source);
  }
  unknown_ = *spec.unknown;
  const std::string& prefix = rules_.continuing_prefix;
  const std::int32_t count = rules_.piece_count.value_or(vocabulary.size());
  for (std::int32_t id = 0; id < std::min(count, vocabulary.size()); ++id) {
    const std::string_view text = vocabulary.text(id);
    first_.emplace(text, id);  // the first of equal texts is kept
    if (text.starts_with(prefix)) continuing_.emplace(text.substr(prefix.size()), id);
    longest_ = std::max(longest_, text.size());
  }
}

std::string WordPieceTokenizer::normalized(std::string_view text) const {
  return bert_normalized(text, rules_);
}

void WordPieceTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::vector<std::string_view> words;
  split_bert_words(text, words);
  for (const std::string_view word : words) encode_word(word, ids);
}

void WordPieceTokenizer::encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
  const std::size_t begin = ids.size();
  bool known = !too_long(word);
  for (std::size_t at = 0; known && at < word.size();) {
    const Piece piece = longest_piece(at == 0 ? first_ : continuing_, word.substr(at));
    known = piece.id >= 0;
    ids.push_back(piece.id);
    at += piece.size;
  }
  if (known) return;
  ids.resize(begin);
  ids.push_back(unknown_);
}

bool WordPieceTokenizer::too_long(std::string_view word) const {
  if (word.size() <= rules_.max_word_chars) return false;
  const auto chars =
      word.size() - static_cast<std::size_t>(std::ranges::count_if(word, continues_character));
  return chars > rules_.max_word_chars;
}

WordPieceTokenizer::Piece WordPieceTokenizer::longest_piece(const Pieces& pieces,
                                                            std::string_view rest) const {
  for (std::size_t size = std::min(longest_, rest.size()); size > 0; --size) {
    if (size < rest.size() && continues_character(rest[size])) continue;  // cuts a character
    const auto found = pieces.find(rest.substr(0, size));
    if (found != pieces.end()) return {found->second, size};
  }
  return {-1, 0};
}

}  // namespace clora
