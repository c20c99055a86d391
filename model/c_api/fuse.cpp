// clora.h: merged models.
#include "clora/model/weights/fuse.hpp"

#include <fmt/format.h>

#include <string_view>

#include "clora/model/text/tokenizer_files.hpp"
#include "model/c_api/boundary.hpp"
#include "model/c_api/handles.hpp"
#include "runtime/fail.hpp"
#include "runtime/files/atomic_folder.hpp"

namespace clora::c_api {
namespace {

constexpr std::string_view kWho = "clora_fuse";

void require_supported(const char* given, std::string_view supported, std::string_view name) {
  if (given == nullptr || given == supported) return;
  fail(ErrorCode::unsupported, "{}: the {} must be {}, got '{}'", kWho, name, supported, given);
}

// Another model's files in it would be read as a part of this one.
void require_free(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return;
  if (std::filesystem::is_directory(path, ignored) && std::filesystem::is_empty(path, ignored)) {
    return;
  }
  fail(ErrorCode::io, "{}: '{}' exists and is not an empty folder; choose another path", kWho,
       path.string());
}

// A model may have no tokenizer, or one that cannot be converted.
void write_tokenizer(const ModelCore& model, const std::filesystem::path& folder) {
  try {
    write_tokenizer_files(model.path, folder);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    model.context->context.hooks().log_message(
        LogLevel::warning, fmt::format("{}: no tokenizer is written: {}", kWho, error.what()));
  }
}

void fuse(const AdapterCore& adapter, const std::filesystem::path& path,
          const clora_fuse_options& options) {
  require_supported(options.format, "safetensors", "format");
  require_supported(options.type, "f32", "type");
  std::function<bool()> go_on;
  if (options.progress != nullptr) {
    go_on = [&options] { return options.progress(options.user) == 0; };
  }
  require_free(path);
  const AtomicFolder folder(path, "config.json");
  write_fused_model(WeightFiles::open(adapter.model->path), adapter.adapter, folder.partial(),
                    go_on);
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
