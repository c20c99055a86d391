#include "model/text/tokenizer_json.hpp"

#include <algorithm>
#include <filesystem>

#include "clora/runtime/files/json.hpp"
#include "model/text/tokenizer_pipeline.hpp"
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
    check_model();
    read_tokenizer_pipeline(file_, spec_);
    read_tokens();
    read_merges();
    if (const auto part = file_.find_object("post_processor")) read_post_processor(*part);
    read_config(config);
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

  void check_model() {
    const std::string type = model_.find_text("type").value_or("BPE");
    if (type != "BPE") refuse("model.type '{}' is not supported; it must be BPE", type);
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
    const AddedTokenRules rules{.normalized = flag(token, "normalized", false),
                                .single_word = flag(token, "single_word", false),
                                .lstrip = flag(token, "lstrip", false),
                                .rstrip = flag(token, "rstrip", false)};
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
    const auto found = std::find(spec_.tokens.begin(), spec_.tokens.end(), text);
    if (found == spec_.tokens.end()) {
      fail(ErrorCode::invalid_file, "{}: {} '{}' is not a token", spec_.source, what, text);
    }
    return static_cast<std::int32_t>(found - spec_.tokens.begin());
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

  void read_post_processor(const JsonKeys& part) {
    const std::string type = part.text("type");
    if (type == "Sequence") {
      const Json& steps = list_of(part, "processors");
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const std::string path = fmt::format("{}[{}]", part.name_of_key("processors"), i);
        read_post_processor(JsonKeys(steps[i], spec_.source, path));
      }
    } else if (type == "TemplateProcessing") {
      read_template(part);
    } else if (type != "ByteLevel") {
      refuse(
          "{}: the post_processor '{}' is not supported; supported: ByteLevel, TemplateProcessing "
          "and a Sequence of these",
          part.name_of_key(""), type);
    }
  }

  // Accepts the text alone, or with a special token before it, which sets bos.
  void read_template(const JsonKeys& part) {
    templated_ = true;
    const Json& single = list_of(part, "single");
    const auto is = [&](std::size_t i, const char* kind) {
      return i < single.size() && single[i].is_object() && single[i].contains(kind);
    };
    if (single.size() == 1 && is(0, "Sequence")) return;
    if (single.size() != 2 || !is(0, "SpecialToken") || !is(1, "Sequence")) {
      refuse(
          "{}.single must be one special token and the text, or the text alone; {} is not "
          "supported",
          part.name_of_key(""), json_excerpt(Json(json_text(single)), 300));
    }
    const JsonKeys token(single[0]["SpecialToken"], spec_.source,
                         part.name_of_key("single[0].SpecialToken"));
    spec_.bos = id_of(token.text("id"), "the post_processor's token");
    spec_.add_bos = true;
  }

  void read_config(const JsonKeys& config) {
    if (const auto text = token_text(config, "bos_token")) spec_.bos = id_of(*text, "bos_token");
    if (const auto text = token_text(config, "eos_token")) spec_.eos = id_of(*text, "eos_token");
    if (!templated_) spec_.add_bos = flag(config, "add_bos_token", false);
    const Json* chat = config.find("chat_template");
    if (chat == nullptr) return;
    if (chat->is_string()) {
      spec_.chat_template = chat->get<std::string>();
    } else {
      read_named_templates(config);
    }
  }

  // Named templates: the one for conversations without tools is "default".
  void read_named_templates(const JsonKeys& config) {
    const Json& list = list_of(config, "chat_template");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const JsonKeys named(list[i], config.source(), fmt::format("chat_template[{}]", i));
      if (named.text("name") == "default") spec_.chat_template = named.text("template");
    }
  }

  // A token is stored as its text, or as an object with that text.
  static std::optional<std::string> token_text(const JsonKeys& config, const char* key) {
    const Json* token = config.find(key);
    if (token == nullptr || token->is_string()) return config.find_text(key);
    return config.object(key).text("content");
  }

  const Json empty_list_ = Json::array();
  const JsonKeys& file_;
  JsonKeys model_;
  TokenizerSpec spec_;
  std::size_t id_limit_ = 0;
  bool templated_ = false;
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
