#include "tests/support/word_piece_files.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/gguf_bytes.hpp"

namespace clora::test {
namespace {

constexpr std::uint32_t kInt = 5, kBool = 7, kString = 8, kArray = 9;  // GGUF's value types

bool is_special(const TokenizerSpec& spec, std::size_t id) {
  return spec.types[id] == TokenType::control;
}

// The token as GGUF spells it.
std::string spelled(const TokenizerSpec& spec, std::size_t id, bool old) {
  const std::string& token = spec.tokens[id];
  const bool bare = old ? token.starts_with('[') && token.ends_with(']') : is_special(spec, id);
  if (bare) return token;
  return token.starts_with("##") ? token.substr(2) : "\u2581" + token;
}

std::string array_header(std::uint32_t type, std::size_t count) {
  std::string bytes;
  append_scalar(bytes, type);
  append_scalar(bytes, static_cast<std::uint64_t>(count));
  return bytes;
}

void add_flag(GgufBytes& file, const char* key, bool value) {
  file.add_raw(key, kBool, std::string(1, value ? '\1' : '\0'));
}

}  // namespace

std::string vocabulary_text(const TokenizerSpec& spec) {
  std::string lines;
  for (const std::string& token : spec.tokens) lines += token + "\n";
  return lines;
}

std::string word_piece_config(const TokenizerSpec& spec, const std::string& tokenizer_class) {
  const auto text = [&](const std::optional<std::int32_t>& id) {
    return spec.tokens[static_cast<std::size_t>(id.value())];
  };
  const nlohmann::json config = {{"tokenizer_class", tokenizer_class},
                                 {"do_lower_case", spec.word_piece.lowercase},
                                 {"strip_accents", nullptr},
                                 {"tokenize_chinese_chars", spec.word_piece.handle_chinese_chars},
                                 {"cls_token", text(spec.bos)},
                                 {"sep_token", {{"content", text(spec.sep)}}},
                                 {"pad_token", text(spec.pad)},
                                 {"unk_token", text(spec.unknown)},
                                 {"mask_token", {{"content", text(spec.mask)}, {"lstrip", true}}}};
  return config.dump();
}

std::string word_piece_gguf(const TokenizerSpec& spec, bool old) {
  std::string tokens = array_header(kString, spec.tokens.size());
  std::string types = array_header(kInt, spec.tokens.size());
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    append_gguf_string(tokens, spelled(spec, id, old));
    append_scalar(types, static_cast<std::int32_t>(spec.types[id]));
  }
  GgufBytes file;
  file.add_text("tokenizer.ggml.model", "bert").add_text("tokenizer.ggml.pre", "default");
  file.add_raw("tokenizer.ggml.tokens", kArray, tokens);
  const auto add_id = [&](const char* key, const std::optional<std::int32_t>& id) {
    file.add_integer(key, static_cast<std::uint32_t>(id.value()));
  };
  add_id("tokenizer.ggml.unknown_token_id", spec.unknown);
  add_id("tokenizer.ggml.seperator_token_id", spec.sep);
  add_id("tokenizer.ggml.padding_token_id", spec.pad);
  add_id("tokenizer.ggml.cls_token_id", spec.bos);
  add_id("tokenizer.ggml.mask_token_id", spec.mask);
  if (old) return file.bytes();
  file.add_raw("tokenizer.ggml.token_type", kArray, types);
  add_flag(file, "tokenizer.ggml.normalizer.lowercase", spec.word_piece.lowercase);
  add_flag(file, "tokenizer.ggml.normalizer.strip_accents", spec.word_piece.strip_accents);
  return file.bytes();
}

}  // namespace clora::test
