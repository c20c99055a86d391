// clora.h: merged models.
#include "clora/model/weights/fuse.hpp"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "clora/model/export/gguf_model.hpp"
#include "clora/model/text/tokenizer_files.hpp"
#include "model/c_api/boundary.hpp"
#include "model/c_api/handles.hpp"
#include "model/files/quantise.hpp"
#include "runtime/fail.hpp"
#include "runtime/files/atomic_folder.hpp"

namespace clora::c_api {
namespace {

constexpr std::string_view kWho = "clora_fuse";

bool is_gguf(const clora_fuse_options& options) {
  const std::string_view format = options.format == nullptr ? "safetensors" : options.format;
  if (format == "gguf") return true;
  if (format == "safetensors") return false;
  fail(ErrorCode::unsupported, "{}: the format must be safetensors or gguf, got '{}'", kWho,
       format);
}

// nullopt: the option is not set.
std::optional<DType> type_of(const clora_fuse_options& options, bool gguf) {
  if (options.type == nullptr) return std::nullopt;
  const std::optional<DType> found = find_quantisable(options.type);
  if (found && (gguf || !is_quantised(*found))) return found;
  fail(ErrorCode::unsupported, "{}: the type must be one of {}, got '{}'", kWho,
       gguf ? quantisable_types() : "f32, f16, bf16", options.type);
}

// Another model's files in a folder would be read as a part of this one.
void require_free(const std::filesystem::path& path, bool gguf) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  if (!gguf && is_folder && std::filesystem::is_empty(path, ignored)) return;
  fail(ErrorCode::io, "{}: '{}' exists{}; choose another path", kWho, path.string(),
       gguf ? "" : " and is not an empty folder");
}

void warn(const ModelCore& model, std::string_view message) {
  model.context->context.hooks().log_message(LogLevel::warning,
                                             fmt::format("{}: {}", kWho, message));
}

// A model may have no tokenizer, or one that cannot be converted.
void write_tokenizer(const ModelCore& model, const std::filesystem::path& folder) {
  try {
    write_tokenizer_files(model.path, folder);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    warn(model, fmt::format("no tokenizer is written: {}", error.what()));
  }
}

void write_gguf(const AdapterCore& adapter, const WeightFiles& base,
                const std::filesystem::path& path, const GgufModelOptions& options) {
  const GgufModelSummary summary = write_gguf_model(base, &adapter.adapter, path, options);
  if (!summary.missing_tokenizer.empty()) {
    warn(*adapter.model, fmt::format("no tokenizer is written: {}", summary.missing_tokenizer));
  }
  if (!summary.tokenizer_warning.empty()) warn(*adapter.model, summary.tokenizer_warning);
}

void fuse(const AdapterCore& adapter, const std::filesystem::path& path,
          const clora_fuse_options& options) {
  const bool gguf = is_gguf(options);
  const std::optional<DType> type = type_of(options, gguf);
  std::function<bool()> go_on;
  if (options.progress != nullptr) {
    go_on = [&options] { return options.progress(options.user) == 0; };
  }
  require_free(path, gguf);
  const WeightFiles base = WeightFiles::open(adapter.model->path);
  if (gguf) {
    write_gguf(adapter, base, path, {.type = type, .go_on = go_on});
    return;
  }
  const AtomicFolder folder(path, "config.json");
  write_fused_model(base, &adapter.adapter, folder.partial(),
                    {.type = type.value_or(DType::f32), .go_on = go_on});
  write_tokenizer(*adapter.model, folder.partial());
  folder.commit_files();
}

}  // namespace
}  // namespace clora::c_api

using namespace clora;
using namespace clora::c_api;

clora_status clora_fuse(const clora_adapter* adapter, const char* path,
                        const clora_fuse_options* options) {
  return guarded([&] {
    require_given(adapter, kWho, "adapter");
    require_given(path, kWho, "path");
    fuse(*adapter->core, path, read_struct(options, kWho));
  });
}
