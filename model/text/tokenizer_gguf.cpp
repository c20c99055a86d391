// tokenizer_spec_from_gguf() and tokenizer_from_gguf() of tokenizer_files.hpp.
#include <algorithm>
#include <array>

#include "clora/model/text/tokenizer_files.hpp"
#include "model/text/pre_tokenizers.hpp"
#include "model/text/space_mark.hpp"
#include "model/text/word_piece/word_piece_vocabulary.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr const char* kPrefix = "tokenizer.ggml.";

// Reads one file's metadata under tokenizer.ggml.; errors name the file.
class GgufReader {
 public:
  explicit GgufReader(const GgufFile& file) : file_(file) {
    spec_.source = file.path().filename().string();
  }

  TokenizerSpec read() {
    read_tokens();
    const std::string model(required_text("model"));
    if (model == "gpt2") {
      read_byte_level();
    } else if (model == "llama") {
      read_sentencepiece();
    } else if (model == "bert") {
      read_word_pieces();
    } else {
      fail(ErrorCode::unsupported,
           "{}: tokenizer model '{}' is not supported; supported models: gpt2, llama, bert",
           spec_.source, model);
    }
    read_special_ids();
    if (model == "bert") read_frame();
    if (const auto text = file_.text("tokenizer.chat_template")) spec_.chat_template = *text;
    if (const auto text = file_.text("tokenizer.chat_template.tool_use"))
      spec_.tool_chat_template = *text;
    return std::move(spec_);
  }

 private:
  static std::string key(const char* name) { return std::string(kPrefix) + name; }

  [[noreturn]] void damaged(const char* name, const char* what) const {
    fail(ErrorCode::invalid_file, "{}: {} must be {}", spec_.source, key(name), what);
  }

  std::string_view required_text(const char* name) const {
    const auto text = file_.text(key(name));
    if (!text) damaged(name, "present; the file contains no tokenizer");
    return *text;
  }

  std::vector<std::string_view> required_texts(const char* name) const {
    const GgufValue* value = file_.find_value(key(name));
    auto texts = value == nullptr ? std::nullopt : value->texts();
    if (!texts) damaged(name, "a list of strings");
    return std::move(*texts);
  }

  void read_tokens() {
    for (const std::string_view text : required_texts("tokens")) spec_.tokens.emplace_back(text);
    const GgufValue* value = file_.find_value(key("token_type"));
    if (value == nullptr) return;
    const auto types = value->integers();
    if (!types) damaged("token_type", "a list of integers");
    for (const std::int64_t type : *types) {
      if (type < 0 || type > 6) damaged("token_type", "a list of values from 1 to 6");
      spec_.types.push_back(type == 0 ? TokenType::normal : static_cast<TokenType>(type));
    }
  }

  void read_byte_level() {
    spec_.algorithm = TokenizerAlgorithm::byte_level_bpe;
    PreTokenizer pre = pre_tokenizer_of(file_.text(key("pre")).value_or("default"));
    spec_.split_patterns = std::move(pre.patterns);
    spec_.normalize_nfc = pre.normalize_nfc;
    spec_.ignore_merges = pre.ignore_merges;
    spec_.add_bos = file_.boolean(key("add_bos_token")).value_or(pre.add_bos);
    spec_.add_leading_space = file_.boolean(key("add_space_prefix")).value_or(false);
    for (const std::string_view merge : required_texts("merges")) {
      spec_.merges.push_back(merge_from_text(merge, spec_.source));
    }
  }

  void read_sentencepiece() {
    spec_.algorithm = TokenizerAlgorithm::sentencepiece_scores;
    const GgufValue* value = file_.find_value(key("scores"));
    auto scores = value == nullptr ? std::nullopt : value->floats();
    if (!scores) damaged("scores", "a list of floats");
    spec_.scores = std::move(*scores);
    spec_.add_bos = file_.boolean(key("add_bos_token")).value_or(true);
    spec_.space_prefix = file_.boolean(key("add_space_prefix")).value_or(true)
                             ? SpacePrefix::every_fragment
                             : SpacePrefix::never;
    spec_.unknown = special_id("unknown_token_id");
    if (file_.text("general.architecture") == "phi3") add_rules_of_phi3();
    spec_.bos = 1;  // Llama's ids, if the file does not define them
    spec_.eos = 2;
  }

  // The added tokens of Phi-3 take the white space after them, except these. Metadata has no place
  // for that, so llama.cpp and clora know it.
  void add_rules_of_phi3() {
    constexpr std::array<std::string_view, 3> kExact = {"<unk>", "<s>", "<|endoftext|>"};
    for (std::size_t id = 0; id < spec_.types.size() && id < spec_.tokens.size(); ++id) {
      const TokenType type = spec_.types[id];
      const bool is_added = type == TokenType::control || type == TokenType::user_defined;
      if (is_added && std::ranges::find(kExact, spec_.tokens[id]) == kExact.end())
        spec_.added_rules[static_cast<std::int32_t>(id)].rstrip = true;
    }
  }

  // The pre-tokeniser's name does not matter: all files of this model have BERT's.
  void read_word_pieces() {
    spec_.algorithm = TokenizerAlgorithm::word_piece;
    spell_word_pieces();
    WordPieceRules& rules = spec_.word_piece;
    rules.lowercase = file_.boolean(key("normalizer.lowercase")).value_or(true);
    rules.strip_accents = file_.boolean(key("normalizer.strip_accents")).value_or(rules.lowercase);
    spec_.unknown = encoder_token("unknown_token_id", "[UNK]");
    spec_.pad = encoder_token("padding_token_id", "[PAD]");
    spec_.mask = encoder_token("mask_token_id", "[MASK]");
  }

  // GGUF marks the pieces that begin a word, by U+2581, where vocab.txt marks the others. Special
  // tokens are unmarked; files without types of tokens have them in brackets. The mark alone is the
  // character U+2581 that continues a word: no token is empty.
  void spell_word_pieces() {
    bool marked = false;
    for (std::size_t id = 0; id < spec_.tokens.size(); ++id) {
      std::string& token = spec_.tokens[id];
      const bool special = !spec_.types.empty() && (spec_.types[id] == TokenType::control ||
                                                    spec_.types[id] == TokenType::unknown);
      if (token.starts_with(kSpaceMark) && token != kSpaceMark) {
        token.erase(0, kSpaceMark.size());
        marked = true;
      } else if (!special && !(token.starts_with('[') && token.ends_with(']'))) {
        token.insert(0, spec_.word_piece.continuing_prefix);
      }
    }
    if (!marked) damaged("tokens", "pieces of words, of which those that begin one have U+2581");
  }

  // The id of the key, or of the token with BERT's name if the file does not have the key.
  std::optional<std::int32_t> encoder_token(const char* name, std::string_view text) const {
    if (const auto id = special_id(name)) return id;
    const auto found = std::ranges::find(spec_.tokens, text);
    if (found == spec_.tokens.end()) return std::nullopt;
    return static_cast<std::int32_t>(found - spec_.tokens.begin());
  }

  // After read_special_ids(): an encoder's bos is its [CLS].
  void read_frame() {
    const auto bos = spec_.bos;
    spec_.bos = encoder_token("cls_token_id", "[CLS]");
    if (!spec_.bos) spec_.bos = bos;
    spec_.sep = encoder_token("seperator_token_id", "[SEP]");  // spelled so in GGUF
    if (!spec_.sep) spec_.sep = spec_.eos;
    spec_.add_bos = file_.boolean(key("add_bos_token")).value_or(true);
    spec_.add_sep = file_.boolean(key("add_sep_token")).value_or(true);
    if (spec_.add_bos && !spec_.bos) damaged("cls_token_id", "present");
    if (spec_.add_sep && !spec_.sep) damaged("seperator_token_id", "present");
    mark_special_tokens(spec_);
  }

  // Writers store 2^32 - 1 if there is no such token.
  std::optional<std::int32_t> special_id(const char* name) const {
    const auto id = file_.integer(key(name));
    if (!id || *id == 0xFFFFFFFF || *id == -1) return std::nullopt;
    if (*id < 0 || *id >= static_cast<std::int64_t>(spec_.tokens.size())) {
      damaged(name, "a token of the vocabulary");
    }
    return static_cast<std::int32_t>(*id);
  }

  void read_special_ids() {
    if (const auto id = special_id("bos_token_id")) spec_.bos = id;
    if (const auto id = special_id("eos_token_id")) spec_.eos = id;
    for (const char* name : {"eot_token_id", "eom_token_id"}) {
      if (const auto id = special_id(name)) spec_.end_of_generation.push_back(*id);
    }
  }

  const GgufFile& file_;
  TokenizerSpec spec_;
};

}  // namespace

TokenizerSpec tokenizer_spec_from_gguf(const GgufFile& file) { return GgufReader(file).read(); }

Tokenizer tokenizer_from_gguf(const GgufFile& file) {
  return Tokenizer(tokenizer_spec_from_gguf(file));
}

}  // namespace clora
