#include "model/text/word_piece/word_piece_vocabulary.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "model/text/added_token_json.hpp"
#include "model/text/word_piece/word_piece_json.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using Json = nlohmann::json;

constexpr EncoderTokenNames kBertNames = {"[CLS]", "[SEP]", "[PAD]", "[MASK]"};
constexpr EncoderTokenNames kMpnetNames = {"<s>", "</s>", "<pad>", "<mask>"};

// The names by the configuration's class, without "Fast".
EncoderTokenNames default_names(const JsonKeys& config) {
  std::string name = config.find_text("tokenizer_class").value_or("BertTokenizer");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  if (name == "MPNetTokenizer") return kMpnetNames;
  constexpr std::array<std::string_view, 3> kBertClasses = {"BertTokenizer", "DistilBertTokenizer",
                                                            "ElectraTokenizer"};
  if (std::ranges::find(kBertClasses, name) != kBertClasses.end()) return kBertNames;
  fail(ErrorCode::unsupported,
       "{}: tokenizer_class '{}' with vocab.txt is not supported; supported: BertTokenizer, "
       "DistilBertTokenizer, ElectraTokenizer, MPNetTokenizer; a tokenizer.json in the folder is "
       "read instead",
       config.source(), name);
}

void refuse_other_rules(const JsonKeys& config) {
  const Json* never_split = config.find("never_split");
  if (never_split != nullptr && !never_split->empty()) {
    fail(ErrorCode::unsupported, "{}: never_split {} is not supported; it must be null",
         config.source(), json_excerpt(*never_split));
  }
  if (!config.find_flag("do_basic_tokenize").value_or(true)) {
    fail(ErrorCode::unsupported, "{}: do_basic_tokenize must be true, got false", config.source());
  }
}

// Lines end in a line feed, possibly after a carriage return; the last one may lack it.
void read_lines(std::string_view text, TokenizerSpec& spec) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    spec.tokens.emplace_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

// Marks the token that the entry describes. Tokens that were added to a model have ids after those
// of vocab.txt, without gaps.
void read_added_token(const JsonKeys& token, std::size_t id, TokenizerSpec& spec) {
  const std::string text = token.text("content");
  if (id == spec.tokens.size()) {
    spec.tokens.push_back(text);
    spec.types.push_back(TokenType::normal);
  }
  if (id > spec.tokens.size() || spec.tokens[id] != text) {
    fail(ErrorCode::invalid_file,
         "{}: {}: {} must be the token with this id in vocab.txt, or follow its {} tokens",
         token.source(), token.name_of_key(""), json_excerpt(Json(text)), spec.tokens.size());
  }
  const bool special = token.find_flag("special").value_or(false);
  spec.types[id] = special ? TokenType::control : TokenType::user_defined;
  const AddedTokenRules rules = added_token_rules(token);
  if (rules != AddedTokenRules{}) spec.added_rules[static_cast<std::int32_t>(id)] = rules;
}

void read_added_tokens(const JsonKeys& config, TokenizerSpec& spec) {
  const auto decoder = config.find_object("added_tokens_decoder");
  if (!decoder) return;
  std::map<std::size_t, const Json*> by_id;
  for (const auto& [key, token] : decoder->value().items()) {
    std::size_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size()) {
      decoder->wrong_kind(key, "the entry of an id", token);
    }
    by_id[id] = &token;
  }
  for (const auto& [id, token] : by_id) {
    const std::string path = decoder->name_of_key(std::to_string(id));
    read_added_token(JsonKeys(*token, config.source(), path), id, spec);
  }
}

void require_frame(const TokenizerSpec& spec) {
  if (spec.bos && spec.sep) return;
  fail(ErrorCode::invalid_file,
       "{}: the vocabulary must contain cls_token and sep_token of tokenizer_config.json ([CLS] "
       "and [SEP] by default)",
       spec.source);
}

}  // namespace

TokenizerSpec word_piece_spec_from_vocabulary(std::string_view vocabulary, const JsonKeys& config,
                                              std::string_view source) {
  refuse_other_rules(config);
  const EncoderTokenNames names = default_names(config);
  TokenizerSpec spec;
  spec.source = source;
  spec.algorithm = TokenizerAlgorithm::word_piece;
  apply_bert_config(config, std::nullopt, spec.word_piece);
  read_lines(vocabulary, spec);
  spec.types.assign(spec.tokens.size(), TokenType::normal);
  spec.word_piece.piece_count = static_cast<std::int32_t>(spec.tokens.size());
  read_added_tokens(config, spec);
  read_encoder_tokens(config, names, spec);
  spec.unknown =
      required_token(spec, config_token_text(config, "unk_token").value_or("[UNK]"), "unk_token");
  require_frame(spec);
  spec.add_bos = spec.add_sep = true;
  mark_special_tokens(spec);
  return spec;
}

}  // namespace clora
