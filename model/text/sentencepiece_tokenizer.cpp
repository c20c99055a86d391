#include "model/text/sentencepiece_tokenizer.hpp"

#include <algorithm>

#include "model/text/utf8.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";
constexpr std::int32_t kSpaceMarkCode = 0x2581;

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(left) << 32) | static_cast<std::uint32_t>(right);
}

MergeTable merges_of(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  if (spec.algorithm == TokenizerAlgorithm::sentencepiece_merges) {
    return MergeTable(spec.merges, vocabulary, spec.source);
  }
  if (spec.scores.size() != static_cast<std::size_t>(vocabulary.size())) {
    fail(ErrorCode::invalid_file, "{}: {} tokens must have the same number of scores, got {}",
         spec.source, vocabulary.size(), spec.scores.size());
  }
  return MergeTable(merges_by_score(spec.scores, vocabulary));
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(const TokenizerSpec& spec,
                                               const Vocabulary& vocabulary)
    : vocabulary_(vocabulary),
      merges_(merges_of(spec, vocabulary)),
      unknown_(spec.unknown),
      space_prefix_(spec.space_prefix),
      metaspace_(spec.metaspace),
      split_before_space_(spec.split_before_space),
      fuse_unknown_(spec.fuse_unknown) {
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.is_text(id)) add_joinable_pairs(vocabulary.text(id));
  }
}

void SentencePieceTokenizer::add_joinable_pairs(std::string_view token) {
  std::int32_t before = -1;
  for (std::size_t i = 0; i < token.size();) {
    const Utf8Char c = read_utf8(token, i);
    if (before >= 0 && c.code_point >= 0) joinable_.insert(pair_key(before, c.code_point));
    before = c.code_point;
    i += c.length;
  }
}

bool SentencePieceTokenizer::joinable(std::int32_t left, std::int32_t right) const {
  if (split_before_space_ && right == kSpaceMarkCode) return false;
  return left >= 0 && right >= 0 && joinable_.count(pair_key(left, right)) != 0;
}

bool SentencePieceTokenizer::puts_space_before(std::string_view text, Place place) const {
  if (space_prefix_ == SpacePrefix::never) return false;
  if (metaspace_ && (text.starts_with(' ') || text.starts_with(kSpaceMark))) return false;
  return place.begins_text || (place.after_special && space_prefix_ == SpacePrefix::every_fragment);
}

std::string SentencePieceTokenizer::marked(std::string_view text, Place place) const {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  if (puts_space_before(text, place)) out += kSpaceMark;
  for (const char c : text) {
    if (c == ' ') {
      out += kSpaceMark;
    } else {
      out += c;
    }
  }
  return out;
}

std::string SentencePieceTokenizer::normalized(std::string_view text, Place place) const {
  return metaspace_ ? std::string(text) : marked(text, place);
}

void SentencePieceTokenizer::encode(std::string_view text, Place place,
                                    std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  std::vector<std::int32_t> own;
  if (metaspace_) {
    encode_marked(marked(text, place), own);
  } else {
    encode_marked(text, own);
  }
  ids.insert(ids.end(), own.begin(), own.end());
}

void SentencePieceTokenizer::encode_marked(std::string_view all,
                                           std::vector<std::int32_t>& ids) const {
  std::vector<Symbol> row;
  std::int32_t before = -1;
  for (std::size_t i = 0; i < all.size();) {
    const Utf8Char c = read_utf8(all, i);
    if (!joinable(before, c.code_point)) {
      encode_row(all, row, ids);
      row.clear();
    }
    const std::int32_t id = vocabulary_.find(all.substr(i, c.length));
    row.push_back({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(c.length),
                   id >= 0 && vocabulary_.is_text(id) ? id : -1});
    before = c.code_point;
    i += c.length;
  }
  encode_row(all, row, ids);
}

void SentencePieceTokenizer::encode_row(std::string_view text, std::vector<Symbol>& row,
                                        std::vector<std::int32_t>& ids) const {
  merge_symbols(row, [this](const Symbol& left, const Symbol& right) {
    return merges_.find(left.id, right.id);
  });
  for (const Symbol& symbol : row) {
    append_symbol(text.substr(symbol.offset, symbol.length), symbol.id, ids);
  }
}

void SentencePieceTokenizer::append_symbol(std::string_view text, std::int32_t id,
                                           std::vector<std::int32_t>& ids) const {
  if (id >= 0) {
    ids.push_back(id);
    return;
  }
  const auto token_of = [this](char c) {
    return vocabulary_.byte_token(static_cast<unsigned char>(c));
  };
  const bool by_bytes =
      std::all_of(text.begin(), text.end(), [&](char c) { return token_of(c) >= 0; });
  if (by_bytes) {
    for (const char c : text) ids.push_back(token_of(c));
  } else if (unknown_ && !(fuse_unknown_ && !ids.empty() && ids.back() == *unknown_)) {
    ids.push_back(*unknown_);
  }
}

}  // namespace clora
