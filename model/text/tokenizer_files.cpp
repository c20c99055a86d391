#include "clora/model/text/tokenizer_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "clora/runtime/files/file.hpp"
#include "model/files/generation_config.hpp"
#include "model/files/model_folder.hpp"
#include "model/text/pre_tokenizers.hpp"
#include "model/text/tokenizer_json.hpp"
#include "model/text/tokenizer_json_writing.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

constexpr const char* kPrefix = "tokenizer.ggml.";
constexpr const char* kTokenizerName = "tokenizer.json";

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
    } else {
      fail(ErrorCode::unsupported,
           "{}: tokenizer model '{}' is not supported; supported models: gpt2, llama", spec_.source,
           model);
    }
    read_special_ids();
    if (const auto text = file_.text("tokenizer.chat_template")) spec_.chat_template = *text;
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

std::string text_of(const std::filesystem::path& path) {
  return std::string(MappedFile::open(path).text());
}

std::string text_or_nothing(const std::filesystem::path& path) {
  return std::filesystem::is_regular_file(path) ? text_of(path) : std::string();
}

// The tokenizer files of a Hugging Face folder.
constexpr std::array<const char*, 9> kFolderFiles = {
    kTokenizerName,       "tokenizer_config.json", "special_tokens_map.json", "vocab.json",
    "merges.txt",         "tokenizer.model",       "added_tokens.json",       "chat_template.jinja",
    kGenerationConfigName};

void add_generation_ends(const std::filesystem::path& folder, TokenizerSpec& spec) {
  const auto vocabulary = static_cast<std::int64_t>(spec.tokens.size());
  for (const std::int32_t id : generation_end_ids(folder, vocabulary)) {
    spec.end_of_generation.push_back(id);
    if (!spec.eos) spec.eos = id;
  }
}

Tokenizer load_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kTokenizerName;
  if (!std::filesystem::is_regular_file(path)) {
    fail(ErrorCode::not_found, "tokenizer: '{}' contains no tokenizer.json", folder.string());
  }
  TokenizerSpec spec = tokenizer_spec_from_json(
      text_of(path), text_or_nothing(folder / "tokenizer_config.json"), path.string());
  const std::string chat = text_or_nothing(folder / "chat_template.jinja");
  if (!chat.empty()) spec.chat_template = chat;  // takes precedence: the newer location
  add_generation_ends(folder, spec);
  return Tokenizer(std::move(spec));
}

// Returns the GGUF file with the tokenizer of `model`; nullopt if `model` is a folder whose
// tokenizer is in, or belongs in, tokenizer.json.
std::optional<std::filesystem::path> gguf_of(const std::filesystem::path& model) {
  if (!std::filesystem::is_directory(model)) return model;
  if (std::filesystem::is_regular_file(model / kTokenizerName)) return std::nullopt;
  return has_safetensors(model) ? std::nullopt : gguf_model_in(model);
}

}  // namespace

TokenizerSpec tokenizer_spec_from_gguf(const GgufFile& file) { return GgufReader(file).read(); }

Tokenizer tokenizer_from_gguf(const GgufFile& file) {
  return Tokenizer(tokenizer_spec_from_gguf(file));
}

Tokenizer load_tokenizer(const std::filesystem::path& model) {
  const auto gguf = gguf_of(model);
  return gguf ? tokenizer_from_gguf(GgufFile::open(*gguf)) : load_folder(model);
}

void write_tokenizer_files(const std::filesystem::path& model,
                           const std::filesystem::path& out_folder) {
  if (const auto gguf = gguf_of(model)) {
    const TokenizerSpec spec = tokenizer_spec_from_gguf(GgufFile::open(*gguf));
    write_file_atomically(out_folder / kTokenizerName, tokenizer_json_of(spec));
    write_file_atomically(out_folder / "tokenizer_config.json", tokenizer_config_json_of(spec));
    return;
  }
  load_folder(model);  // throws if it cannot be read back
  for (const char* name : kFolderFiles) {
    const std::string text = text_or_nothing(model / name);
    if (!text.empty()) write_file_atomically(out_folder / name, text);
  }
}

}  // namespace clora
