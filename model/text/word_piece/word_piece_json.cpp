#include "model/text/word_piece/word_piece_json.hpp"

#include <algorithm>

#include "model/text/added_token_json.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// Throws unless the part has this type, the only one that is supported for WordPiece.
JsonKeys required_part(const JsonKeys& file, const char* key, std::string_view type) {
  const auto part = file.find_object(key);
  const std::string got = part ? part->text("type") : "none";
  if (got != type) {
    fail(ErrorCode::unsupported, "{}: the {} '{}' is not supported for WordPiece; it must be {}",
         file.source(), key, got, type);
  }
  return *part;
}

// Returns strip_accents, which may be absent.
std::optional<bool> read_normalizer(const JsonKeys& part, WordPieceRules& rules) {
  rules.clean_text = part.find_flag("clean_text").value_or(true);
  rules.handle_chinese_chars = part.find_flag("handle_chinese_chars").value_or(true);
  rules.lowercase = part.find_flag("lowercase").value_or(true);
  return part.find_flag("strip_accents");
}

void read_model(const JsonKeys& model, WordPieceRules& rules) {
  rules.continuing_prefix = model.find_text("continuing_subword_prefix").value_or("##");
  const std::int64_t longest = model.find_integer("max_input_chars_per_word").value_or(100);
  if (longest < 0) {
    model.wrong_kind("max_input_chars_per_word", "at least 0", nlohmann::json(longest));
  }
  rules.max_word_chars = static_cast<std::size_t>(longest);
}

// Without a decoder, tokenizers joins the tokens as they are spelled; here a text is decoded as by
// BERT's decoder, which these files have.
void read_decoder(const JsonKeys& file, WordPieceRules& rules) {
  const JsonKeys part = required_part(file, "decoder", "WordPiece");
  const std::string prefix = part.find_text("prefix").value_or("##");
  if (prefix != rules.continuing_prefix) {
    fail(ErrorCode::unsupported,
         "{}: decoder.prefix must equal model.continuing_subword_prefix '{}', got '{}'",
         file.source(), rules.continuing_prefix, prefix);
  }
  rules.decoder_cleanup = part.find_flag("cleanup").value_or(true);
}

}  // namespace

void read_word_piece(const JsonKeys& file, const JsonKeys& config, TokenizerSpec& spec) {
  spec.algorithm = TokenizerAlgorithm::word_piece;
  read_model(file.object("model"), spec.word_piece);
  const std::optional<bool> strip_accents =
      read_normalizer(required_part(file, "normalizer", "BertNormalizer"), spec.word_piece);
  required_part(file, "pre_tokenizer", "BertPreTokenizer");
  read_decoder(file, spec.word_piece);
  apply_bert_config(config, strip_accents, spec.word_piece);
}

void apply_bert_config(const JsonKeys& config, std::optional<bool> strip_accents,
                       WordPieceRules& rules) {
  const auto flag = [&](const char* key, bool absent) {
    return config.find_flag(key).value_or(absent);
  };
  rules.lowercase = flag("do_lower_case", rules.lowercase);
  rules.handle_chinese_chars = flag("tokenize_chinese_chars", rules.handle_chinese_chars);
  rules.strip_accents = flag("strip_accents", strip_accents.value_or(rules.lowercase));
}

void read_encoder_tokens(const JsonKeys& config, const EncoderTokenNames& names,
                         TokenizerSpec& spec) {
  const auto fill = [&](const char* key, const char* name, std::optional<std::int32_t>& id) {
    if (id) return;
    std::optional<std::string> text = config_token_text(config, key);
    if (!text && name != nullptr) text = name;
    const auto found = text ? std::ranges::find(spec.tokens, *text) : spec.tokens.end();
    if (found != spec.tokens.end()) id = static_cast<std::int32_t>(found - spec.tokens.begin());
  };
  fill("cls_token", names.cls, spec.bos);
  fill("sep_token", names.sep, spec.sep);
  fill("pad_token", names.pad, spec.pad);
  fill("mask_token", names.mask, spec.mask);
}

}  // namespace clora
