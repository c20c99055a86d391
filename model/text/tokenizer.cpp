#include "clora/model/text/tokenizer.hpp"

#include <algorithm>
#include <array>

#include "model/text/bpe_tokenizer.hpp"
#include "model/text/sentencepiece_tokenizer.hpp"
#include "model/text/special_splitter.hpp"
#include "model/text/utf8.hpp"
#include "model/text/vocabulary.hpp"
#include "model/text/word_piece/word_piece_tokenizer.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

// Tokens that end an answer or a turn, by the names that models use.
constexpr std::array<std::string_view, 9> kEndNames = {
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>",    "<|end_of_text|>", "<|endoftext|>",
    "</s>",       "<|end|>",    "<end_of_turn>", "<|eot|>"};

std::vector<std::int32_t> ends_of(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  std::vector<std::int32_t> ends = spec.end_of_generation;
  if (spec.eos) ends.push_back(*spec.eos);
  for (const std::string_view name : kEndNames) {
    const std::int32_t id = vocabulary.find(name);
    if (id >= 0 && vocabulary.type(id) != TokenType::normal) ends.push_back(id);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

void check_ids(const TokenizerSpec& spec, const Vocabulary& vocabulary) {
  const auto check = [&](const char* what, std::int32_t id) {
    if (vocabulary.contains(id)) return;
    fail(ErrorCode::invalid_file, "{}: the {} token must be below {}, got {}", spec.source, what,
         vocabulary.size(), id);
  };
  if (spec.bos) check("bos", *spec.bos);
  if (spec.eos) check("eos", *spec.eos);
  if (spec.unknown) check("unknown", *spec.unknown);
  if (spec.sep) check("sep", *spec.sep);
  for (const std::int32_t id : spec.end_of_generation) check("end of generation", id);
}

// Returns a splitter for the added tokens that are matched in the original or normalised text.
template <class Normalise>
SpecialSplitter splitter_of(const Vocabulary& vocabulary, const TokenizerSpec& spec,
                            bool normalized, const Normalise& normalise) {
  std::vector<SpecialSplitter::Entry> entries;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const bool control = vocabulary.is_special(id);
    if (!control && vocabulary.type(id) != TokenType::user_defined) continue;
    const auto found = spec.added_rules.find(id);
    const AddedTokenRules rules =
        found == spec.added_rules.end() ? AddedTokenRules{} : found->second;
    if (rules.normalized != normalized) continue;
    entries.push_back({normalise(vocabulary.text(id)), id, control, rules});
  }
  return SpecialSplitter(std::move(entries));
}

// The tokens before and after those of a text.
struct Frame {
  std::optional<std::int32_t> bos, sep;
};

}  // namespace

struct Tokenizer::Tables {
  using Place = SentencePieceTokenizer::Place;

  explicit Tables(TokenizerSpec& spec)
      : vocabulary(spec),
        raw_specials(splitter_of(vocabulary, spec, false, [](const std::string& t) { return t; })),
        bos(spec.bos),
        eos(spec.eos),
        sep(spec.sep),
        add_bos(spec.add_bos && spec.bos),
        add_sep(spec.add_sep && spec.sep),
        chat_template(std::move(spec.chat_template)),
        tool_chat_template(std::move(spec.tool_chat_template)) {
    check_ids(spec, vocabulary);
    ends = ends_of(spec, vocabulary);
    if (spec.algorithm == TokenizerAlgorithm::byte_level_bpe) {
      bpe.emplace(spec, vocabulary);
    } else if (spec.algorithm == TokenizerAlgorithm::word_piece) {
      word_piece.emplace(spec, vocabulary);
    } else {
      sentencepiece.emplace(spec, vocabulary);
    }
    normalized_specials = splitter_of(vocabulary, spec, true, [&](const std::string& text) {
      return normalized(text, {.begins_text = true});
    });
  }

  std::string normalized(std::string_view text, Place place) const {
    if (bpe) return bpe->normalized(text);
    return word_piece ? word_piece->normalized(text) : sentencepiece->normalized(text, place);
  }

  void encode_text(std::string_view text, Place place, std::vector<std::int32_t>& ids) const {
    if (bpe) {
      bpe->encode(text, ids);
    } else if (word_piece) {
      word_piece->encode(text, ids);
    } else {
      sentencepiece->encode(text, place, ids);
    }
  }

  // Appends each match of `splitter` in the text as a token, and calls `between` for the text
  // between matches.
  template <class Between>
  static void cut(const SpecialSplitter& splitter, std::string_view text, Place place,
                  bool parse_special, std::vector<std::int32_t>& ids, const Between& between) {
    for (std::size_t done = 0, from = 0; done < text.size() || from < text.size();) {
      const auto special = splitter.find(text, done, from, parse_special);
      if (special.begin > done) between(text.substr(done, special.begin - done), place);
      if (special.id >= 0) ids.push_back(special.id);
      place = {.begins_text = false, .after_special = true};
      done = special.end;
      from = special.next;
    }
  }

  void encode(std::string_view text, Place place, bool parse_special,
              std::vector<std::int32_t>& ids) const {
    cut(raw_specials, text, place, parse_special, ids, [&](std::string_view raw, Place raw_place) {
      const std::string normal = normalized(raw, raw_place);
      cut(normalized_specials, normal, raw_place, parse_special, ids,
          [&](std::string_view part, Place part_place) { encode_text(part, part_place, ids); });
    });
  }

  Frame frame(const EncodeOptions& options) const {
    Frame result;
    if (options.add_bos == AddBos::no) return result;
    const bool asked = options.add_bos == AddBos::yes;
    require(bos || !asked, "tokenizer: a bos token was requested, but the model has none");
    if (asked || (add_bos && !options.continues)) result.bos = bos;
    if (add_sep && (asked || !options.continues)) result.sep = sep;
    return result;
  }

  // Returns the first control token that encode() cuts out only with parse_special; -1: none.
  std::int32_t first_control(std::string_view text) const {
    std::vector<std::int32_t> found;
    const auto is_control = [&](std::int32_t id) { return vocabulary.is_special(id); };
    const auto nothing = [](std::string_view, Place) {};
    cut(raw_specials, text, {}, true, found, [&](std::string_view raw, Place place) {
      if (normalized_specials.empty()) return;
      cut(normalized_specials, normalized(raw, place), place, true, found, nothing);
    });
    const auto first = std::ranges::find_if(found, is_control);
    return first == found.end() ? -1 : *first;
  }

  Vocabulary vocabulary;
  SpecialSplitter raw_specials;  // matched before and after normalisation
  SpecialSplitter normalized_specials{{}};
  // Whether decoding a text removes the space with which the first token begins.
  bool has_dummy_space() const {
    return word_piece || (sentencepiece && sentencepiece->adds_space_prefix());
  }

  std::optional<BpeTokenizer> bpe;  // exactly one of the three
  std::optional<SentencePieceTokenizer> sentencepiece;
  std::optional<WordPieceTokenizer> word_piece;
  std::optional<std::int32_t> bos, eos, sep;
  bool add_bos, add_sep;
  std::vector<std::int32_t> ends;
  std::string chat_template, tool_chat_template;
};

Tokenizer::Tokenizer(TokenizerSpec spec) : tables_(std::make_shared<const Tables>(spec)) {}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text,
                                            const EncodeOptions& options) const {
  constexpr std::size_t kLongestText = std::size_t{1} << 30;  // 32-bit offsets, marks of 3 bytes
  require(text.size() <= kLongestText, "tokenizer: a text must be at most 1 GiB, got {} bytes",
          text.size());
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 4 + 2);
  const Frame frame = tables_->frame(options);
  if (frame.bos) ids.push_back(*frame.bos);
  tables_->encode(text, {!options.continues, options.after_special}, options.parse_special, ids);
  if (frame.sep) ids.push_back(*frame.sep);
  return ids;
}

std::vector<TextPart> Tokenizer::parts_of(
    std::string_view text, const std::function<bool(std::size_t, std::size_t)>& is_parsed) const {
  std::vector<TextPart> parts;
  const SpecialSplitter& splitter = tables_->raw_specials;
  for (std::size_t done = 0, from = 0; done < text.size();) {
    auto found = splitter.find(text, done, from, true);
    while (found.id >= 0 && is_special(found.id) && !is_parsed(found.begin, found.next)) {
      // A token that is always extracted may be inside of a control token that is not.
      const auto other = splitter.find(text, done, from, false);
      from = found.next;
      found = other.id >= 0 && other.begin < from ? other : splitter.find(text, done, from, true);
    }
    if (found.begin > done) parts.push_back({done, found.begin, -1, found.begin});
    if (found.id >= 0) parts.push_back({found.begin, found.end, found.id, found.next});
    done = found.end;
    from = found.next;
  }
  return parts;
}

CutText Tokenizer::encode_at_most(std::string_view text, std::size_t max_tokens,
                                  const EncodeOptions& options) const {
  const Frame frame = tables_->frame(options);
  const std::size_t framing = std::size_t{frame.bos.has_value()} + frame.sep.has_value();
  require(max_tokens > framing,
          "tokenizer: a text must be allowed at least {} tokens ({} of them special), got {}",
          framing + 1, framing, max_tokens);
  CutText result{encode(text, options), 0};
  if (result.ids.size() <= max_tokens) return result;
  result.cut = result.ids.size() - max_tokens;
  result.ids.resize(max_tokens);
  if (frame.sep) result.ids.back() = *frame.sep;
  return result;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids,
                              const DecodeOptions& options) const {
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string& bytes = token_bytes(id);
    if (options.keep_special || !is_special(id)) text += bytes;
  }
  if (tables_->has_dummy_space() && !options.continues && !text.empty() && text.front() == ' ')
    text.erase(0, 1);
  return text;
}

std::int32_t Tokenizer::vocabulary_size() const { return tables_->vocabulary.size(); }

const std::string& Tokenizer::token_text(std::int32_t id) const {
  require(tables_->vocabulary.contains(id), "tokenizer: a token must be in [0, {}), got {}",
          vocabulary_size(), id);
  return tables_->vocabulary.text(id);
}

const std::string& Tokenizer::token_bytes(std::int32_t id) const {
  require(tables_->vocabulary.contains(id), "tokenizer: a token must be in [0, {}), got {}",
          vocabulary_size(), id);
  return tables_->vocabulary.bytes(id);
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view token_text) const {
  const std::int32_t id = tables_->vocabulary.find(token_text);
  return id < 0 ? std::nullopt : std::optional<std::int32_t>(id);
}

bool Tokenizer::is_special(std::int32_t id) const {
  return tables_->vocabulary.contains(id) && tables_->vocabulary.is_special(id);
}

std::optional<std::int32_t> Tokenizer::first_special(std::string_view text) const {
  const std::int32_t id = tables_->first_control(text);
  return id < 0 ? std::nullopt : std::optional<std::int32_t>(id);
}

std::optional<std::int32_t> Tokenizer::bos() const { return tables_->bos; }
std::optional<std::int32_t> Tokenizer::eos() const { return tables_->eos; }
std::optional<std::int32_t> Tokenizer::sep() const { return tables_->sep; }
bool Tokenizer::adds_bos() const { return tables_->add_bos; }
bool Tokenizer::adds_sep() const { return tables_->add_sep; }

bool Tokenizer::ends_generation(std::int32_t id) const {
  return std::binary_search(tables_->ends.begin(), tables_->ends.end(), id);
}

const std::vector<std::int32_t>& Tokenizer::end_of_generation() const { return tables_->ends; }
const std::string& Tokenizer::chat_template() const { return tables_->chat_template; }
const std::string& Tokenizer::tool_chat_template() const { return tables_->tool_chat_template; }

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool keep_special)
    : tokenizer_(std::move(tokenizer)), keep_special_(keep_special) {}

std::string StreamDecoder::push(std::int32_t id) {
  held_ += tokenizer_.decode(std::span(&id, 1), {keep_special_, /*continues=*/true});
  std::size_t complete = 0;  // up to here every character is complete, or never will be
  while (complete < held_.size()) {
    const Utf8Char c = read_utf8(held_, complete);
    if (c.cut_off) break;
    complete += c.length;
  }
  std::string text = replace_invalid_utf8(std::string_view(held_).substr(0, complete));
  held_.erase(0, complete);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text = replace_invalid_utf8(held_);
  held_.clear();
  return text;
}

}  // namespace clora
