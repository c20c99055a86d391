#include "model/tokenizer_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/error.hpp"

namespace clora {

namespace {

using Json = nlohmann::json;

constexpr const char* kSpaceMark = "\xE2\x96\x81";  // U+2581

// One reading of one file: fills the spec part by part.
class JsonReader {
 public:
  explicit JsonReader(std::string_view source) { spec_.source = source; }

  TokenizerSpec read(const Json& file, const Json& config) {
    model_ = &file.at("model");
    check_model();
    read_normalizer(member(file, "normalizer"));
    read_pre_tokenizer(member(file, "pre_tokenizer"));
    settle_algorithm();
    read_tokens(member(file, "added_tokens"));
    read_merges();
    read_post_processor(member(file, "post_processor"));
    read_config(config);
    return std::move(spec_);
  }

 private:
  // The member, or null where it is absent.
  const Json& member(const Json& object, const char* key) const {
    const auto found = object.find(key);
    return found == object.end() ? null_ : *found;
  }

  static std::string type_of(const Json& part) { return part.value("type", std::string("none")); }

  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorCode::unsupported, "{}: {} is not supported", spec_.source, what);
  }

  void check_model() {
    const std::string type = model_->value("type", std::string("BPE"));
    if (type != "BPE") refuse(fmt::format("model type '{}' (only BPE)", type));
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const Json& affix = member(*model_, key);
      if (affix.is_string() && !affix.get<std::string>().empty()) refuse(key);
    }
    spec_.ignore_merges = flag(*model_, "ignore_merges", false);
    spec_.fuse_unknown = flag(*model_, "fuse_unk", false);
  }

  bool flag(const Json& object, const char* key, bool absent) const {
    const Json& value = member(object, key);
    return value.is_boolean() ? value.get<bool>() : absent;
  }

  void read_normalizer(const Json& part) {
    if (part.is_null()) return;
    const std::string type = type_of(part);
    if (type == "Sequence") {
      for (const Json& step : part.at("normalizers")) read_normalizer(step);
    } else if (type == "NFC") {
      spec_.normalize_nfc = true;
    } else if (type == "Prepend" && part.at("prepend") == kSpaceMark) {
      prefix_ = SpacePrefix::every_fragment;
    } else if (type == "Replace" && part.at("pattern") == Json{{"String", " "}} &&
               part.at("content") == kSpaceMark) {
      marks_spaces_ = true;
    } else {
      refuse(fmt::format("normalizer '{}'", type));
    }
  }

  void read_pre_tokenizer(const Json& part) {
    if (part.is_null()) return;
    const std::string type = type_of(part);
    if (type == "Sequence") {
      for (const Json& step : part.at("pretokenizers")) read_pre_tokenizer(step);
    } else if (type == "ByteLevel") {
      read_byte_level(part);
    } else if (type == "Split") {
      read_split(part);
    } else if (type == "Digits") {
      spec_.split_patterns.push_back(flag(part, "individual_digits", false) ? single_digit_pattern()
                                                                            : R"(\p{N}+)");
    } else if (type == "Metaspace") {
      read_metaspace(part);
    } else {
      refuse(fmt::format("pre_tokenizer '{}'", type));
    }
  }

  void read_byte_level(const Json& part) {
    byte_level_ = true;
    spec_.add_leading_space = flag(part, "add_prefix_space", true);
    if (spec_.add_leading_space && !spec_.split_patterns.empty()) {
      refuse("ByteLevel with add_prefix_space behind another pre_tokenizer");
    }
    if (flag(part, "use_regex", true)) spec_.split_patterns.push_back(gpt2_split_pattern());
  }

  void read_split(const Json& part) {
    const std::string behavior = part.at("behavior").get<std::string>();
    const Json& pattern = part.at("pattern");
    if (behavior != "Isolated" || flag(part, "invert", false) || !pattern.contains("Regex")) {
      refuse(
          fmt::format("pre_tokenizer Split with {} and behavior '{}'", pattern.dump(), behavior));
    }
    spec_.split_patterns.push_back(pattern.at("Regex").get<std::string>());
  }

  void read_metaspace(const Json& part) {
    if (part.value("replacement", std::string(kSpaceMark)) != kSpaceMark) {
      refuse("Metaspace with another mark than U+2581");
    }
    marks_spaces_ = true;
    spec_.split_before_space = flag(part, "split", true);
    const bool prefixed = flag(part, "add_prefix_space", true);
    const std::string scheme =
        part.value("prepend_scheme", std::string(prefixed ? "always" : "never"));
    if (scheme == "always") {
      prefix_ = SpacePrefix::every_fragment;
    } else if (scheme == "first") {
      prefix_ = SpacePrefix::first_fragment;
    } else if (scheme != "never") {
      refuse(fmt::format("Metaspace with prepend_scheme '{}'", scheme));
    }
  }

  void settle_algorithm() {
    if (byte_level_ && !marks_spaces_ && prefix_ == SpacePrefix::never) {
      spec_.algorithm = TokenizerAlgorithm::byte_level_bpe;
    } else if (marks_spaces_ && !byte_level_ && spec_.split_patterns.empty() &&
               !spec_.normalize_nfc && !spec_.ignore_merges) {
      spec_.algorithm = TokenizerAlgorithm::sentencepiece_merges;
      spec_.space_prefix = prefix_;
    } else {
      refuse("a BPE model that is neither byte-level nor marks spaces by U+2581");
    }
  }

  void read_tokens(const Json& added) {
    for (const auto& [text, id] : model_->at("vocab").items()) put_token(text, id, {});
    if (flag(*model_, "byte_fallback", false)) {
      for (std::size_t i = 0; i < spec_.tokens.size(); ++i) {
        const std::string& text = spec_.tokens[i];
        const bool byte = text.size() == 6 && text.rfind("<0x", 0) == 0 && text.back() == '>';
        if (byte) spec_.types[i] = TokenType::byte;
      }
    }
    for (const Json& token : added) {
      for (const char* key : {"single_word", "lstrip", "rstrip"}) {
        if (flag(token, key, false)) refuse(fmt::format("an added token with {}", key));
      }
      const bool special = flag(token, "special", false);
      put_token(token.at("content").get<std::string>(), token.at("id"),
                special ? TokenType::control : TokenType::user_defined);
    }
    const Json& unknown = member(*model_, "unk_token");
    if (unknown.is_string()) spec_.unknown = id_of(unknown.get<std::string>(), "unk_token");
  }

  void put_token(const std::string& text, const Json& id, std::optional<TokenType> type) {
    constexpr std::int64_t kMostTokens = 1 << 24;
    const auto value = id.get<std::int64_t>();
    if (value < 0 || value >= kMostTokens) {
      fail(ErrorCode::invalid_file, "{}: token '{}' must have an id below {}, got {}", spec_.source,
           text, kMostTokens, value);
    }
    const auto index = static_cast<std::size_t>(value);
    if (index >= spec_.tokens.size()) {
      spec_.tokens.resize(index + 1);
      spec_.types.resize(index + 1, TokenType::unused);
    }
    spec_.tokens[index] = text;
    spec_.types[index] = type.value_or(TokenType::normal);
  }

  std::int32_t id_of(const std::string& text, const char* what) const {
    const auto found = std::find(spec_.tokens.begin(), spec_.tokens.end(), text);
    if (found == spec_.tokens.end()) {
      fail(ErrorCode::invalid_file, "{}: {} '{}' is not a token", spec_.source, what, text);
    }
    return static_cast<std::int32_t>(found - spec_.tokens.begin());
  }

  void read_merges() {
    const Json& merges = model_->at("merges");
    spec_.merges.reserve(merges.size());
    for (const Json& merge : merges) {
      if (merge.is_array() && merge.size() == 2) {
        spec_.merges.push_back({merge[0].get<std::string>(), merge[1].get<std::string>()});
        continue;
      }
      spec_.merges.push_back(merge_from_text(merge.get_ref<const std::string&>(), spec_.source));
    }
  }

  // A sequence that begins with a special token asks for bos.
  void read_post_processor(const Json& part) {
    if (part.is_null()) return;
    const std::string type = type_of(part);
    if (type == "Sequence") {
      for (const Json& step : part.at("processors")) read_post_processor(step);
    } else if (type == "TemplateProcessing") {
      const Json& single = part.at("single");
      templated_ = true;
      if (single.empty() || !single[0].contains("SpecialToken")) return;
      const auto text = single[0]["SpecialToken"].at("id").get<std::string>();
      spec_.bos = id_of(text, "the post_processor's token");
      spec_.add_bos = true;
    } else if (type != "ByteLevel") {
      refuse(fmt::format("post_processor '{}'", type));
    }
  }

  void read_config(const Json& config) {
    if (const auto text = token_text(config, "bos_token")) spec_.bos = id_of(*text, "bos_token");
    if (const auto text = token_text(config, "eos_token")) spec_.eos = id_of(*text, "eos_token");
    if (!templated_) spec_.add_bos = flag(config, "add_bos_token", false);
    const Json& chat = member(config, "chat_template");
    if (chat.is_string()) spec_.chat_template = chat.get<std::string>();
    if (!chat.is_array()) return;  // else templates by name
    for (const Json& named : chat) {
      if (named.value("name", std::string()) == "default") {
        spec_.chat_template = named.at("template").get<std::string>();
      }
    }
  }

  // A token is written as its text, or as an object that holds it.
  std::optional<std::string> token_text(const Json& config, const char* key) const {
    const Json& token = member(config, key);
    if (token.is_string()) return token.get<std::string>();
    if (token.is_object()) return token.at("content").get<std::string>();
    return std::nullopt;
  }

  const Json null_;
  TokenizerSpec spec_;
  const Json* model_ = nullptr;
  bool byte_level_ = false, marks_spaces_ = false, templated_ = false;
  SpacePrefix prefix_ = SpacePrefix::never;
};

}  // namespace

TokenizerSpec tokenizer_spec_from_json(std::string_view json, std::string_view config_json,
                                       std::string_view source) {
  try {
    const Json file = Json::parse(json);
    const Json config = config_json.empty() ? Json::object() : Json::parse(config_json);
    return JsonReader(source).read(file, config);
  } catch (const Json::exception& error) {
    fail(ErrorCode::invalid_file, "{}: not the JSON of a tokenizer: {}", source, error.what());
  }
}

Tokenizer tokenizer_from_json(std::string_view json, std::string_view config_json,
                              std::string_view source) {
  return Tokenizer(tokenizer_spec_from_json(json, config_json, source));
}

}  // namespace clora
