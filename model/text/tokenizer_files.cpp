#include "clora/model/text/tokenizer_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "lora/hub_cache.hpp"
#include "model/files/generation_config.hpp"
#include "model/files/model_folder.hpp"
#include "model/text/pre_tokenizers.hpp"
#include "model/text/space_mark.hpp"
#include "model/text/tokenizer_json.hpp"
#include "model/text/tokenizer_json_writing.hpp"
#include "model/text/word_piece/word_piece_vocabulary.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

constexpr const char* kTokenizerName = "tokenizer.json";
constexpr const char* kConfigName = "tokenizer_config.json";
constexpr const char* kToolTemplateName = "additional_chat_templates/tool_use.jinja";

std::string text_of(const std::filesystem::path& path) {
  return std::string(MappedFile::open(path).text());
}

std::string text_or_nothing(const std::filesystem::path& path) {
  return std::filesystem::is_regular_file(path) ? text_of(path) : std::string();
}

// The tokenizer files of a Hugging Face folder.
constexpr std::array<const char*, 11> kFolderFiles = {
    kTokenizerName,        kConfigName,       "special_tokens_map.json", "vocab.json",
    "merges.txt",          "tokenizer.model", "added_tokens.json",       "vocab.txt",
    "chat_template.jinja", kToolTemplateName, kGenerationConfigName};

void add_generation_ends(const std::filesystem::path& folder, TokenizerSpec& spec) {
  const auto vocabulary = static_cast<std::int64_t>(spec.tokens.size());
  for (const std::int32_t id : generation_end_ids(folder, vocabulary)) {
    spec.end_of_generation.push_back(id);
    if (!spec.eos) spec.eos = id;
  }
}

TokenizerSpec spec_of_json(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kTokenizerName;
  return tokenizer_spec_from_json(text_of(path), text_or_nothing(folder / kConfigName),
                                  path.string());
}

// The tokens of special_tokens_map.json take precedence, unless the configuration is of a release
// that lists its tokens itself.
TokenizerSpec spec_of_vocabulary(const std::filesystem::path& folder) {
  const auto object_of = [&](const char* name) {
    const std::string text = text_or_nothing(folder / name);
    return text.empty() ? nlohmann::json::object() : parse_json(text, (folder / name).string());
  };
  if (std::filesystem::exists(folder / "added_tokens.json")) {
    fail(ErrorCode::unsupported,
         "{}: added_tokens.json is not supported without tokenizer.json; save the tokenizer with "
         "a current release of transformers, which writes that",
         folder.string());
  }
  nlohmann::json config = object_of(kConfigName);
  if (!config.contains("added_tokens_decoder")) config.update(object_of("special_tokens_map.json"));
  const std::string source = (folder / kConfigName).string();
  const std::filesystem::path path = folder / "vocab.txt";
  return word_piece_spec_from_vocabulary(text_of(path), JsonKeys(config, source), path.string());
}

TokenizerSpec spec_of_folder(const std::filesystem::path& folder) {
  const auto has = [&](const char* name) {
    return std::filesystem::is_regular_file(folder / name);
  };
  if (!has(kTokenizerName) && !has("vocab.txt")) {
    fail(ErrorCode::not_found, "tokenizer: '{}' contains neither tokenizer.json nor vocab.txt",
         folder.string());
  }
  TokenizerSpec spec = has(kTokenizerName) ? spec_of_json(folder) : spec_of_vocabulary(folder);
  const std::string chat = text_or_nothing(folder / "chat_template.jinja");
  if (!chat.empty()) spec.chat_template = chat;  // takes precedence: the newer location
  const std::string tools = text_or_nothing(folder / kToolTemplateName);
  if (!tools.empty()) spec.tool_chat_template = tools;
  add_generation_ends(folder, spec);
  return spec;
}

// Returns the GGUF file with the tokenizer of `model`; nullopt if `model` is a folder whose
// tokenizer is in, or belongs in, tokenizer.json.
std::optional<std::filesystem::path> gguf_of(const std::filesystem::path& model) {
  if (!std::filesystem::is_directory(model)) return model;
  for (const char* name : {kTokenizerName, "vocab.txt"}) {
    if (std::filesystem::is_regular_file(model / name)) return std::nullopt;
  }
  return has_safetensors(model) ? std::nullopt : gguf_model_in(model);
}

}  // namespace

TokenizerSpec load_tokenizer_spec(const std::filesystem::path& given) {
  const std::filesystem::path model = resolve_hub_path(given);
  const auto gguf = gguf_of(model);
  return gguf ? tokenizer_spec_from_gguf(GgufFile::open(*gguf)) : spec_of_folder(model);
}

Tokenizer load_tokenizer(const std::filesystem::path& model) {
  return Tokenizer(load_tokenizer_spec(model));
}

void write_tokenizer_files(const std::filesystem::path& given,
                           const std::filesystem::path& out_folder) {
  const std::filesystem::path model = resolve_hub_path(given);
  if (const auto gguf = gguf_of(model)) {
    const TokenizerSpec spec = tokenizer_spec_from_gguf(GgufFile::open(*gguf));
    write_file_atomically(out_folder / kTokenizerName, tokenizer_json_of(spec));
    write_file_atomically(out_folder / kConfigName, tokenizer_config_json_of(spec));
    return;
  }
  load_tokenizer(model);  // throws if it cannot be read back
  for (const char* name : kFolderFiles) {
    const std::string text = text_or_nothing(model / name);
    if (text.empty()) continue;
    std::filesystem::create_directories((out_folder / name).parent_path());
    write_file_atomically(out_folder / name, text);
  }
}

}  // namespace clora
