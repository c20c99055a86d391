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
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) vocab.emplace(spec.tokens[id], id);
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

Json post_processor(const TokenizerSpec& spec) {
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

}  // namespace

std::string tokenizer_json_of(const TokenizerSpec& spec) {
  const bool is_byte_level = spec.algorithm == TokenizerAlgorithm::byte_level_bpe;
  OrderedJson file = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  file["added_tokens"] = added_tokens(spec);
  if (is_byte_level) {
    write_byte_level(spec, file);
  } else {
    write_sentencepiece(spec, file);
  }
  file["post_processor"] = post_processor(spec);
  file["model"] = {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", spec.unknown ? Json(text_of(spec, *spec.unknown)) : Json()},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", !is_byte_level && spec.fuse_unknown},
                   {"byte_fallback", !is_byte_level},
                   {"ignore_merges", spec.ignore_merges},
                   {"vocab", vocabulary(spec)},
                   {"merges", merges_of(spec)}};
  return json_text(file, 1);
}

std::string tokenizer_config_json_of(const TokenizerSpec& spec) {
  OrderedJson config;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  config["clean_up_tokenization_spaces"] = false;
  config["add_bos_token"] = spec.add_bos;
  config["bos_token"] = spec.bos ? Json(text_of(spec, *spec.bos)) : Json();
  config["eos_token"] = spec.eos ? Json(text_of(spec, *spec.eos)) : Json();
  if (!spec.chat_template.empty()) config["chat_template"] = spec.chat_template;
  return json_text(config, 2) + "\n";
}

}  // namespace clora
