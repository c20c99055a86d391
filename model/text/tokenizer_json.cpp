#include "model/text/tokenizer_json.hpp"

#include <filesystem>

#include "clora/runtime/files/json.hpp"
#include "model/text/added_token_json.hpp"
#include "model/text/post_processor_json.hpp"
#include "model/text/tokenizer_pipeline.hpp"
#include "model/text/word_piece/word_piece_json.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

using Json = nlohmann::json;

// Ids may have gaps, but a table over them must not be much larger than the file.
std::size_t id_limit(std::size_t tokens) { return 2 * tokens + (std::size_t{1} << 16U); }

// Reads one file and fills the spec part by part.
class JsonReader {
 public:
  JsonReader(const JsonKeys& file, std::string_view source)
      : file_(file), model_(file.object("model")) {
    spec_.source = source;
  }

  TokenizerSpec read(const JsonKeys& config) {
    const std::string type = model_.find_text("type").value_or("BPE");
    if (type == "BPE") {
      read_bpe();
    } else if (type == "WordPiece") {
      read_word_pieces(config);
    } else {
      refuse("model.type '{}' is not supported; it must be BPE or WordPiece", type);
    }
    const bool templated = read_frame();
    read_config(config, templated);
    return std::move(spec_);
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::unsupported, "{}: {}", spec_.source,
         fmt::format(format, std::forward<Args>(args)...));
  }

  static bool flag(const JsonKeys& object, const char* key, bool absent) {
    return object.find_flag(key).value_or(absent);
  }

  // Returns a list that may be absent.
  const Json& list_of(const JsonKeys& object, const char* key) const {
    const Json* list = object.find(key);
    if (list != nullptr && !list->is_array()) object.wrong_kind(key, "an array", *list);
    return list == nullptr ? empty_list_ : *list;
  }

  void read_bpe() {
    check_bpe_model();
    read_tokenizer_pipeline(file_, spec_);
    read_tokens();
    read_merges();
  }

  void read_word_pieces(const JsonKeys& config) {
    read_word_piece(file_, config, spec_);
    read_tokens();
    read_encoder_tokens(config, {}, spec_);
  }

  void check_bpe_model() {
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!model_.find_text(key).value_or("").empty()) refuse("model.{} is not supported", key);
    }
    if (model_.find_number("dropout").value_or(0) != 0) {
      refuse("model.dropout, which makes tokens random, is not supported; set it to null");
    }
    spec_.ignore_merges = flag(model_, "ignore_merges", false);
    spec_.fuse_unknown = flag(model_, "fuse_unk", false);
  }

  void read_tokens() {
    const JsonKeys vocab = model_.object("vocab");
    const Json& added = list_of(file_, "added_tokens");
    id_limit_ = id_limit(vocab.value().size() + added.size());
    for (const auto& [text, id] : vocab.value().items()) put_token(text, id, TokenType::normal);
    if (is_word_piece()) {
      spec_.word_piece.piece_count = static_cast<std::int32_t>(spec_.tokens.size());
    }
    if (flag(model_, "byte_fallback", false)) find_byte_tokens();
    for (std::size_t i = 0; i < added.size(); ++i) {
      read_added(JsonKeys(added[i], spec_.source, fmt::format("added_tokens[{}]", i)));
    }
    if (const auto unknown = model_.find_text("unk_token")) {
      spec_.unknown = id_of(*unknown, "model.unk_token");
    }
  }

  void find_byte_tokens() {
    for (std::size_t i = 0; i < spec_.tokens.size(); ++i) {
      const std::string& text = spec_.tokens[i];
      const bool byte = text.size() == 6 && text.starts_with("<0x") && text.back() == '>';
      if (byte) spec_.types[i] = TokenType::byte;
    }
  }

  void read_added(const JsonKeys& token) {
    const bool special = flag(token, "special", false);
    const Json* id = token.find("id");
    const std::int32_t index = put_token(token.text("content"), id == nullptr ? Json() : *id,
                                         special ? TokenType::control : TokenType::user_defined);
    const AddedTokenRules rules = added_token_rules(token);
    if (rules != AddedTokenRules{}) spec_.added_rules[index] = rules;
  }

  std::int32_t put_token(const std::string& text, const Json& id, TokenType type) {
    const bool fits = id.is_number_integer() && id >= 0 && id < id_limit_;
    if (!fits) {
      fail(ErrorCode::invalid_file,
           "{}: the id of token {} must be an integer from 0 to {} (twice the number of tokens "
           "plus 65536), got {}",
           spec_.source, json_excerpt(Json(text)), id_limit_ - 1, json_excerpt(id));
    }
    const auto index = id.get<std::size_t>();
    if (index >= spec_.tokens.size()) {
      spec_.tokens.resize(index + 1);
      spec_.types.resize(index + 1, TokenType::unused);
    }
    spec_.tokens[index] = text;
    spec_.types[index] = type;
    return static_cast<std::int32_t>(index);
  }

  std::int32_t id_of(const std::string& text, const char* what) const {
    return required_token(spec_, text, what);
  }

  void read_merges() {
    const Json& merges = list_of(model_, "merges");
    spec_.merges.reserve(merges.size());
    for (std::size_t i = 0; i < merges.size(); ++i) {
      const Json& merge = merges[i];
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        spec_.merges.push_back({merge[0].get<std::string>(), merge[1].get<std::string>()});
      } else if (merge.is_string()) {
        spec_.merges.push_back(merge_from_text(merge.get_ref<const std::string&>(), spec_.source));
      } else {
        model_.wrong_kind(fmt::format("merges[{}]", i), "two tokens", merge);
      }
    }
  }

  // Returns whether the file itself says which special tokens a text gets.
  bool read_frame() {
    const auto part = file_.find_object("post_processor");
    if (!part) return is_word_piece();
    const PostProcessor found = read_post_processor(*part, is_word_piece());
    const char* what = "the post_processor's token";
    if (found.before) spec_.bos = id_of(*found.before, what);
    if (found.after) spec_.sep = id_of(*found.after, what);
    spec_.add_bos = found.before.has_value();
    spec_.add_sep = found.after.has_value();
    return found.defines_frame || is_word_piece();
  }

  bool is_word_piece() const { return spec_.algorithm == TokenizerAlgorithm::word_piece; }

  void read_config(const JsonKeys& config, bool templated) {
    const auto bos = config_token_text(config, "bos_token");
    if (bos && !(is_word_piece() && spec_.bos)) spec_.bos = id_of(*bos, "bos_token");
    if (const auto text = config_token_text(config, "eos_token")) {
      spec_.eos = id_of(*text, "eos_token");
    }
    if (!templated) spec_.add_bos = flag(config, "add_bos_token", false);
    const Json* chat = config.find("chat_template");
    if (chat == nullptr) return;
    if (chat->is_string()) {
      spec_.chat_template = chat->get<std::string>();
    } else {
      read_named_templates(config);
    }
  }

  // Named templates: "tool_use" is for conversations with tools, "default" for the others.
  void read_named_templates(const JsonKeys& config) {
    const Json& list = list_of(config, "chat_template");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const JsonKeys named(list[i], config.source(), fmt::format("chat_template[{}]", i));
      const std::string name = named.text("name");
      if (name == "default") spec_.chat_template = named.text("template");
      if (name == "tool_use") spec_.tool_chat_template = named.text("template");
    }
  }

  const Json empty_list_ = Json::array();
  const JsonKeys& file_;
  JsonKeys model_;
  TokenizerSpec spec_;
  std::size_t id_limit_ = 0;
};

}  // namespace

TokenizerSpec tokenizer_spec_from_json(std::string_view json, std::string_view config_json,
                                       std::string_view source) {
  const Json file = parse_json(json, source);
  const std::string config_source =
      std::filesystem::path(source).replace_filename("tokenizer_config.json").string();
  const Json config = config_json.empty() ? Json::object() : parse_json(config_json, config_source);
  const JsonKeys keys(file, source);
  return JsonReader(keys, source).read(JsonKeys(config, config_source));
}

Tokenizer tokenizer_from_json(std::string_view json, std::string_view config_json,
                              std::string_view source) {
  return Tokenizer(tokenizer_spec_from_json(json, config_json, source));
}

}  // namespace clora
