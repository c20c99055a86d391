#include "model/text/tokenizer_json_writing.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "clora/runtime/files/json.hpp"
#include "model/text/merge_table.hpp"
#include "model/text/pre_tokenizers.hpp"
#include "model/text/space_mark.hpp"
#include "model/text/vocabulary.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

TokenType type_of(const TokenizerSpec& spec, std::size_t id) {
  return spec.types.empty() ? TokenType::normal : spec.types[id];
}

const std::string& text_of(const TokenizerSpec& spec, std::int32_t id) {
  return spec.tokens[static_cast<std::size_t>(id)];
}

Json added_tokens(const TokenizerSpec& spec) {
  Json added = Json::array();
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenType type = type_of(spec, id);
    const bool special = type == TokenType::control || type == TokenType::unknown;
    if (!special && type != TokenType::user_defined) continue;
    const auto found = spec.added_rules.find(static_cast<std::int32_t>(id));
    const AddedTokenRules rules =
        found == spec.added_rules.end() ? AddedTokenRules{} : found->second;
    added.push_back({{"id", id},
                     {"content", spec.tokens[id]},
                     {"single_word", rules.single_word},
                     {"lstrip", rules.lstrip},
                     {"rstrip", rules.rstrip},
                     {"normalized", rules.normalized},
                     {"special", special}});
  }
  return added;
}

Json vocabulary(const TokenizerSpec& spec) {
  Json vocab = Json::object();
  const auto& pieces = spec.word_piece.piece_count;  // absent for other models
  const std::size_t count = pieces ? static_cast<std::size_t>(*pieces) : spec.tokens.size();
  for (std::size_t id = 0; id < count; ++id) vocab.emplace(spec.tokens[id], id);
  return vocab;
}

// Converts scores to ranks: the best first; equal ones in the order of their parts' ids.
Json ranked_by_score(const TokenizerSpec& spec) {
  TokenizerSpec copy = spec;  // Vocabulary moves the tokens out
  std::vector<PairMerge> merges = merges_by_score(spec.scores, Vocabulary(copy));
  std::sort(merges.begin(), merges.end(), [](const PairMerge& a, const PairMerge& b) {
    return std::tuple(-a.merge.priority, a.left, a.right) <
           std::tuple(-b.merge.priority, b.left, b.right);
  });
  Json list = Json::array();
  for (const PairMerge& pair : merges) {
    list.push_back({text_of(spec, pair.left), text_of(spec, pair.right)});
  }
  return list;
}

Json merges_of(const TokenizerSpec& spec) {
  if (spec.algorithm == TokenizerAlgorithm::sentencepiece_scores) return ranked_by_score(spec);
  Json list = Json::array();
  for (const TokenMerge& merge : spec.merges) list.push_back({merge.left, merge.right});
  return list;
}

Json byte_level(bool add_prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json byte_level_pre_tokenizer(const TokenizerSpec& spec) {
  if (spec.split_patterns == std::vector<std::string>{gpt2_split_pattern()}) {
    return byte_level(spec.add_leading_space, true);
  }
  if (spec.add_leading_space) {
    fail(ErrorCode::unsupported,
         "{}: a leading space before patterns other than GPT-2's cannot be written as JSON",
         spec.source);
  }
  Json steps = Json::array();
  for (const std::string& pattern : spec.split_patterns) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back(byte_level(false, false));
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

Json replace(std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

void write_byte_level(const TokenizerSpec& spec, OrderedJson& file) {
  file["normalizer"] = spec.normalize_nfc ? Json{{"type", "NFC"}} : Json();
  file["pre_tokenizer"] = byte_level_pre_tokenizer(spec);
  file["decoder"] = byte_level(spec.add_leading_space, true);
}

void write_sentencepiece(const TokenizerSpec& spec, OrderedJson& file) {
  const bool prefixed = spec.space_prefix != SpacePrefix::never;
  const bool by_metaspace =
      spec.metaspace || spec.split_before_space || spec.space_prefix == SpacePrefix::first_fragment;
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = nullptr;
  if (by_metaspace) {
    const char* scheme = !prefixed                                          ? "never"
                         : spec.space_prefix == SpacePrefix::first_fragment ? "first"
                                                                            : "always";
    file["pre_tokenizer"] = {{"type", "Metaspace"},
                             {"replacement", kSpaceMark},
                             {"prepend_scheme", scheme},
                             {"split", spec.split_before_space}};
  } else {
    Json steps = Json::array();
    if (prefixed) steps.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
    steps.push_back(replace(" ", kSpaceMark));
    file["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  }
  Json steps = {replace(kSpaceMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (prefixed) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  file["decoder"] = {{"type", "Sequence"}, {"decoders", steps}};
}

void write_word_piece(const TokenizerSpec& spec, OrderedJson& file) {
  const WordPieceRules& rules = spec.word_piece;
  file["normalizer"] = {{"type", "BertNormalizer"},
                        {"clean_text", rules.clean_text},
                        {"handle_chinese_chars", rules.handle_chinese_chars},
                        {"strip_accents", rules.strip_accents},
                        {"lowercase", rules.lowercase}};
  file["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  file["decoder"] = {{"type", "WordPiece"},
                     {"prefix", rules.continuing_prefix},
                     {"cleanup", rules.decoder_cleanup}};
}

// [CLS] text [SEP] for an encoder, of a pair [CLS] text [SEP] text [SEP].
Json encoder_post_processor(const TokenizerSpec& spec) {
  Json single = Json::array(), pair = Json::array(), tokens = Json::object();
  const auto add_special = [&](bool added, std::optional<std::int32_t> id, int type) {
    if (!added || !id) return;
    const std::string& text = text_of(spec, *id);
    const Json part = {{"SpecialToken", {{"id", text}, {"type_id", type}}}};
    if (type == 0) single.push_back(part);
    pair.push_back(part);
    tokens[text] = {{"id", text}, {"ids", {*id}}, {"tokens", {text}}};
  };
  add_special(spec.add_bos, spec.bos, 0);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  pair.push_back(single.back());
  add_special(spec.add_sep, spec.sep, 0);
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  add_special(spec.add_sep, spec.sep, 1);
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", tokens}};
}

Json post_processor(const TokenizerSpec& spec) {
  if (spec.algorithm == TokenizerAlgorithm::word_piece) return encoder_post_processor(spec);
  if (!spec.add_bos || !spec.bos) return nullptr;
  const std::string& bos = text_of(spec, *spec.bos);
  const auto token = [&](int type) {
    return Json{{"SpecialToken", {{"id", bos}, {"type_id", type}}}};
  };
  const auto text = [](const char* id, int type) {
    return Json{{"Sequence", {{"id", id}, {"type_id", type}}}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({token(0), text("A", 0)})},
          {"pair", Json::array({token(0), text("A", 0), token(1), text("B", 1)})},
          {"special_tokens", {{bos, {{"id", bos}, {"ids", {*spec.bos}}, {"tokens", {bos}}}}}}};
}

Json unknown_token(const TokenizerSpec& spec) {
  return spec.unknown ? Json(text_of(spec, *spec.unknown)) : Json();
}

Json word_piece_model(const TokenizerSpec& spec) {
  return {{"type", "WordPiece"},
          {"unk_token", unknown_token(spec)},
          {"continuing_subword_prefix", spec.word_piece.continuing_prefix},
          {"max_input_chars_per_word", spec.word_piece.max_word_chars},
          {"vocab", vocabulary(spec)}};
}

Json bpe_model(const TokenizerSpec& spec) {
  const bool is_byte_level = spec.algorithm == TokenizerAlgorithm::byte_level_bpe;
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown_token(spec)},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", !is_byte_level && spec.fuse_unknown},
          {"byte_fallback", !is_byte_level},
          {"ignore_merges", spec.ignore_merges},
          {"vocab", vocabulary(spec)},
          {"merges", merges_of(spec)}};
}

}  // namespace

std::string tokenizer_json_of(const TokenizerSpec& spec) {
  OrderedJson file = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  file["added_tokens"] = added_tokens(spec);
  if (spec.algorithm == TokenizerAlgorithm::byte_level_bpe) {
    write_byte_level(spec, file);
  } else if (spec.algorithm == TokenizerAlgorithm::word_piece) {
    write_word_piece(spec, file);
  } else {
    write_sentencepiece(spec, file);
  }
  file["post_processor"] = post_processor(spec);
  file["model"] =
      spec.algorithm == TokenizerAlgorithm::word_piece ? word_piece_model(spec) : bpe_model(spec);
  return json_text(file, 1);
}

std::string tokenizer_config_json_of(const TokenizerSpec& spec) {
  OrderedJson config;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  config["clean_up_tokenization_spaces"] = false;
  config["add_bos_token"] = spec.add_bos;
  const auto put = [&](const char* key, std::optional<std::int32_t> id) {
    config[key] = id ? Json(text_of(spec, *id)) : Json();
  };
  put("bos_token", spec.bos);
  put("eos_token", spec.eos);
  if (spec.algorithm == TokenizerAlgorithm::word_piece) {
    put("cls_token", spec.bos);
    put("sep_token", spec.sep);
    put("pad_token", spec.pad);
    put("mask_token", spec.mask);
    put("unk_token", spec.unknown);
  }
  if (!spec.chat_template.empty()) config["chat_template"] = spec.chat_template;
  if (!spec.tool_chat_template.empty()) {
    config["chat_template"] =
        OrderedJson::array({{{"name", "default"}, {"template", spec.chat_template}},
                            {{"name", "tool_use"}, {"template", spec.tool_chat_template}}});
  }
  return json_text(config, 2) + "\n";
}

}  // namespace clora
