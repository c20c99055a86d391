#include "model/text/bpe_tokenizer.hpp"

#include "model/text/utf8.hpp"

namespace clora {

BpeTokenizer::BpeTokenizer(const TokenizerSpec& spec, const Vocabulary& vocabulary)
    : vocabulary_(vocabulary),
      merges_(spec.merges, vocabulary, spec.source),
      unknown_(spec.unknown),
      normalize_nfc_(spec.normalize_nfc),
      add_leading_space_(spec.add_leading_space) {
  for (const std::string& pattern : spec.split_patterns) splitters_.emplace_back(pattern);
  if (!spec.ignore_merges) return;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.type(id) == TokenType::normal) normal_pieces_.emplace(vocabulary.bytes(id), id);
  }
}

std::string BpeTokenizer::normalized(std::string_view text) const {
  return normalize_nfc_ ? clora::normalize_nfc(text) : std::string(text);
}

void BpeTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  std::string spaced;  // owns the text if a space is prepended
  if (add_leading_space_ && text.front() != ' ') {
    spaced = " ";
    text = spaced += text;
  }

  std::vector<std::string_view> pieces{text}, finer;
  for (const RegexSplitter& splitter : splitters_) {
    finer.clear();
    for (const std::string_view piece : pieces) splitter.split(piece, finer);
    pieces.swap(finer);
  }
  std::vector<Symbol> symbols;
  for (const std::string_view piece : pieces) encode_piece(piece, symbols, ids);
}

void BpeTokenizer::encode_piece(std::string_view piece, std::vector<Symbol>& symbols,
                                std::vector<std::int32_t>& ids) const {
  if (const auto found = normal_pieces_.find(piece); found != normal_pieces_.end()) {
    ids.push_back(found->second);
    return;
  }
  symbols.clear();
  for (std::size_t i = 0; i < piece.size(); ++i) {
    std::int32_t id = vocabulary_.byte_token(static_cast<unsigned char>(piece[i]));
    if (id < 0 && unknown_) id = *unknown_;
    if (id >= 0) symbols.push_back({static_cast<std::uint32_t>(i), 1, id});
  }
  merge_symbols(symbols, [this](const Symbol& left, const Symbol& right) {
    return merges_.find(left.id, right.id);
  });
  for (const Symbol& symbol : symbols) ids.push_back(symbol.id);
}

}  // namespace clora
