#include "model/text/tokenizer_pipeline.hpp"

#include "model/text/pre_tokenizers.hpp"
#include "model/text/space_mark.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using Json = nlohmann::json;

class PipelineReader {
 public:
  explicit PipelineReader(TokenizerSpec& spec) : spec_(spec) {}

  void read(const JsonKeys& file) {
    if (const auto part = file.find_object("normalizer")) read_normalizer(*part);
    if (const auto part = file.find_object("pre_tokenizer")) read_pre_tokenizer(*part);
    select_algorithm();
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::unsupported, "{}: {}", spec_.source,
         fmt::format(format, std::forward<Args>(args)...));
  }

  // Reads the parts of a Sequence, which are stored under `key`.
  template <class Read>
  void read_sequence(const JsonKeys& part, const char* key, const Read& read) {
    const Json* list = part.find(key);
    if (list == nullptr || !list->is_array()) {
      part.wrong_kind(key, "an array", list == nullptr ? Json() : *list);
    }
    for (std::size_t i = 0; i < list->size(); ++i) {
      read(JsonKeys((*list)[i], part.source(), fmt::format("{}[{}]", part.name_of_key(key), i)));
    }
  }

  static bool flag(const JsonKeys& part, const char* key, bool absent) {
    return part.find_flag(key).value_or(absent);
  }

  void read_normalizer(const JsonKeys& part) {
    const std::string type = part.text("type");
    if (type == "Sequence") {
      read_sequence(part, "normalizers", [this](const JsonKeys& step) { read_normalizer(step); });
    } else if (type == "NFC") {
      spec_.normalize_nfc = true;
    } else if (type == "Prepend" && part.text("prepend") == kSpaceMark) {
      prefix_ = SpacePrefix::every_fragment;
    } else if (type == "Replace" && marks_spaces(part)) {
      marks_spaces_ = true;
    } else {
      refuse(
          "{}: the normalizer '{}'{} is not supported; supported: NFC, Prepend of U+2581, Replace "
          "of a space by U+2581, and a Sequence of these",
          part.name_of_key(""), type,
          type == "Prepend" || type == "Replace" ? " with text other than U+2581" : "");
    }
  }

  static bool marks_spaces(const JsonKeys& part) {
    const Json* pattern = part.find("pattern");
    return pattern != nullptr && *pattern == Json{{"String", " "}} &&
           part.text("content") == kSpaceMark;
  }

  void read_pre_tokenizer(const JsonKeys& part) {
    const std::string type = part.text("type");
    if (type == "Sequence") {
      read_sequence(part, "pretokenizers",
                    [this](const JsonKeys& step) { read_pre_tokenizer(step); });
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
      refuse(
          "{}: the pre_tokenizer '{}' is not supported; supported: ByteLevel, Split (Isolated, by "
          "a Regex), Digits, Metaspace, and a Sequence of these",
          part.name_of_key(""), type);
    }
  }

  void read_byte_level(const JsonKeys& part) {
    byte_level_ = true;
    spec_.add_leading_space = flag(part, "add_prefix_space", true);
    if (spec_.add_leading_space && !spec_.split_patterns.empty()) {
      refuse("{}: ByteLevel with add_prefix_space after another pre_tokenizer is not supported",
             part.name_of_key(""));
    }
    if (flag(part, "use_regex", true)) spec_.split_patterns.push_back(gpt2_split_pattern());
  }

  void read_split(const JsonKeys& part) {
    const std::string behavior = part.text("behavior");
    const JsonKeys pattern = part.object("pattern");
    const auto regex = pattern.find_text("Regex");
    // Gemma's, which finds nothing: the normalizer has replaced every space.
    if (marks_spaces_ && pattern.find_text("String") == " ") return;
    const bool inverted = flag(part, "invert", false);
    const bool keeps_gaps = behavior == "Isolated" && !inverted;
    const bool drops_gaps = behavior == "Removed" && inverted;  // o200k's, which leaves none
    if (!regex || !(keeps_gaps || (drops_gaps && leaves_no_gap(*regex)))) {
      refuse(
          "{}: Split with {}, invert {} and behavior '{}' is not supported; it must be a Regex "
          "with behavior Isolated, or a known Regex that matches every text with Removed and "
          "invert",
          part.name_of_key(""), regex ? "a Regex" : "a pattern other than a Regex", inverted,
          behavior);
    }
    spec_.split_patterns.push_back(*regex);
  }

  void read_metaspace(const JsonKeys& part) {
    if (part.find_text("replacement").value_or(std::string(kSpaceMark)) != kSpaceMark) {
      refuse("{}: Metaspace with a mark other than U+2581 is not supported", part.name_of_key(""));
    }
    if (marks_spaces_) {
      refuse("{}: Metaspace after a normalizer that also marks spaces is not supported",
             part.name_of_key(""));
    }
    marks_spaces_ = spec_.metaspace = true;
    spec_.split_before_space = flag(part, "split", true);
    const bool prefixed = flag(part, "add_prefix_space", true);
    const std::string scheme =
        part.find_text("prepend_scheme").value_or(prefixed ? "always" : "never");
    if (scheme == "always") {
      prefix_ = SpacePrefix::every_fragment;
    } else if (scheme == "first") {
      prefix_ = SpacePrefix::first_fragment;
    } else if (scheme != "never") {
      refuse(
          "{}: Metaspace with prepend_scheme '{}' is not supported; supported: always, first, "
          "never",
          part.name_of_key(""), scheme);
    }
  }

  void select_algorithm() {
    if (byte_level_ && !marks_spaces_ && prefix_ == SpacePrefix::never) {
      spec_.algorithm = TokenizerAlgorithm::byte_level_bpe;
    } else if (marks_spaces_ && !byte_level_ && spec_.split_patterns.empty() &&
               !spec_.normalize_nfc && !spec_.ignore_merges) {
      spec_.algorithm = TokenizerAlgorithm::sentencepiece_merges;
      spec_.space_prefix = prefix_;
    } else {
      refuse(
          "a tokenizer must be byte-level (pre_tokenizer ByteLevel) or mark spaces by U+2581 "
          "(normalizer Replace, or pre_tokenizer Metaspace) without split patterns, NFC or "
          "ignore_merges; this one is neither");
    }
  }

  TokenizerSpec& spec_;
  bool byte_level_ = false, marks_spaces_ = false;
  SpacePrefix prefix_ = SpacePrefix::never;
};

}  // namespace

void read_tokenizer_pipeline(const JsonKeys& file, TokenizerSpec& spec) {
  PipelineReader(spec).read(file);
}

}  // namespace clora
