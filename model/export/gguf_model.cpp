#include "clora/model/export/gguf_model.hpp"

#include <cstring>
#include <span>

#include "clora/model/files/gguf.hpp"
#include "clora/model/files/gguf_writing.hpp"
#include "clora/model/text/tokenizer_files.hpp"
#include "model/configuration/gguf_key_writing.hpp"
#include "model/export/gguf_tensors.hpp"
#include "model/export/gguf_types.hpp"
#include "model/text/tokenizer_gguf_writing.hpp"
#include "runtime/fail.hpp"
#include "runtime/files/disk_space.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kQuantizationVersion = 2;  // of ggml's block formats
constexpr std::string_view kFileTypeKey = "general.file_type";
constexpr std::string_view kRopeFactorsName = "rope_freqs.weight";

// The type of the embeddings, which a file without a chosen type is named by.
std::optional<DType> main_type(const WeightFiles& base, std::optional<DType> wanted) {
  if (wanted) return wanted;
  const auto words = base.find("model.embed_tokens.weight");
  return words ? std::optional(words->type) : std::nullopt;
}

void write_file_type(GgufMetadata& metadata, std::optional<DType> type) {
  metadata.set_uint32("general.quantization_version", kQuantizationVersion);
  const auto number = type ? gguf_file_type(*type) : std::nullopt;
  if (number) metadata.set_uint32(kFileTypeKey, *number);
}

// All keys but those of the layout of the file.
GgufMetadata copied_metadata(const GgufFile& file, std::optional<DType> type) {
  GgufMetadata metadata;
  for (const GgufFile::Entry& entry : file.metadata()) {
    if (entry.key == "general.alignment" || entry.key.starts_with("split.")) continue;
    metadata.set(entry.key, entry.value);
  }
  write_file_type(metadata, type);
  return metadata;
}

std::vector<std::byte> bytes_of_factors(const std::vector<float>& factors) {
  const auto bytes = std::as_bytes(std::span(factors));
  return {bytes.begin(), bytes.end()};
}

class GgufModelWriter {
 public:
  GgufModelWriter(const WeightFiles& base, const Adapter* adapter, const GgufModelOptions& options)
      : base_(base),
        options_(options),
        merged_(base, adapter),
        config_(merged_.config()),
        tensors_(base, merged_, options.type) {}

  GgufModelSummary write(const std::filesystem::path& path) {
    const GgufMetadata metadata =
        base_.gguf() != nullptr ? copied_metadata(*base_.gguf(), options_.type) : new_metadata();
    std::vector<GgufTensorDescription> descriptions = tensors_.descriptions();
    const std::vector<float> factors =
        base_.gguf() != nullptr ? std::vector<float>() : written_rope_factors(config_);
    if (!factors.empty()) {
      descriptions.push_back(
          {std::string(kRopeFactorsName), DType::f32, {static_cast<std::int64_t>(factors.size())}});
    }
    summary_.bytes = gguf_file_bytes(metadata, descriptions);
    if (std::filesystem::exists(path))
      fail(ErrorCode::io, "GGUF: '{}' exists; choose another path", path.string());
    require_free_space(path, summary_.bytes, "GGUF");
    write_gguf(path, metadata, descriptions, [&](std::size_t i) {
      stop_if_cancelled(options_.go_on, "GGUF");
      return i < tensors_.descriptions().size() ? tensors_.bytes(i) : bytes_of_factors(factors);
    });
    if (base_.gguf() == nullptr) check_or_remove(path);
    summary_.copied = tensors_.copied();
    summary_.converted =
        static_cast<std::int64_t>(tensors_.descriptions().size()) - summary_.copied;
    summary_.other_types = tensors_.other_types();
    return summary_;
  }

 private:
  GgufMetadata new_metadata() {
    GgufMetadata metadata;
    write_gguf_config(metadata, config_);
    write_file_type(metadata, main_type(base_, options_.type));
    add_tokenizer(metadata);
    return metadata;
  }

  // A model without a tokenizer can be used with ids of tokens only.
  void add_tokenizer(GgufMetadata& metadata) {
    GgufMetadata with_tokenizer = metadata;
    try {
      tokenizer_ = load_tokenizer_spec(base_.folder());
      write_gguf_tokenizer(with_tokenizer, *tokenizer_, config_.vocabulary);
      metadata = std::move(with_tokenizer);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found) throw;
      summary_.missing_tokenizer = error.what();
      metadata.set_text("tokenizer.ggml.model", "none");
    }
  }

  // What was written must be read as what was meant.
  void check(const std::filesystem::path& path) {
    const GgufFile file = GgufFile::open(path);
    const ModelConfig written = from_gguf(file);
    require_same_computation(config_, written);
    require(written.rope_layout == written_rope_layout(config_),
            "GGUF: the rows of q and k of family {} are not in the order in which they are read",
            config_.family);
    if (!tokenizer_) return;
    summary_.tokenizer_warning = require_same_tokens(*tokenizer_, tokenizer_spec_from_gguf(file));
  }

  void check_or_remove(const std::filesystem::path& path) {
    try {
      check(path);
    } catch (...) {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
      throw;
    }
  }

  const WeightFiles& base_;
  const GgufModelOptions& options_;
  MergedWeights merged_;
  ModelConfig config_;
  GgufTensors tensors_;
  std::optional<TokenizerSpec> tokenizer_;
  GgufModelSummary summary_;
};

}  // namespace

GgufModelSummary write_gguf_model(const WeightFiles& base, const Adapter* adapter,
                                  const std::filesystem::path& path,
                                  const GgufModelOptions& options) {
  return GgufModelWriter(base, adapter, options).write(path);
}

}  // namespace clora
