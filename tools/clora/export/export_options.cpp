#include <CLI/CLI.hpp>

#include "tools/clora/export/export_options.hpp"

#include "model/files/quantise.hpp"
#include "runtime/fail.hpp"
#include "tools/clora/training/run_folder.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKeep = "keep";

bool is_same(const fs::path& one, const fs::path& other) {
  std::error_code ignored;
  return fs::equivalent(one, other, ignored);
}

}  // namespace

bool ExportOptions::is_gguf() const {
  return to.empty() ? fs::path(out).extension() == ".gguf" : to == "gguf";
}

std::optional<DType> ExportOptions::stored_type() const {
  if (is_gguf() && (type.empty() || type == kKeep)) return std::nullopt;
  if (type.empty()) return DType::f32;
  const std::optional<DType> found = find_quantisable(type);
  require(found.has_value(), "{}: --type must be one of {}{}, got '{}'", who,
          is_gguf() ? "keep, " : "", is_gguf() ? quantisable_types() : "f32, f16, bf16", type);
  require(is_gguf() || !is_quantised(*found),
          "{}: --type {} needs a GGUF file (--out NAME.gguf); safetensors are f32, f16 or bf16",
          who, type);
  return found;
}

void add_export_options(CLI::App& command, ExportOptions& options) {
  command.add_flag("--overwrite", options.overwrite,
                   "Replace the model at --out once the new one is complete");
  command
      .add_option("--verify-prompts", options.prompts,
                  "Prompts to compare the models on, one per line: text, or token ids such as "
                  "[1, 15, 7]")
      ->type_name("FILE");
  command.add_flag("--no-verify", options.no_verify,
                   "Do not read the model back and compare it with the original");
  command.add_flag("--no-modelfile", options.no_modelfile,
                   "Do not write NAME.Modelfile for 'ollama create' next to a GGUF file");
}

void require_free_out(const ExportOptions& options) {
  if (!is_occupied(options.out)) return;
  const bool may_replace = options.overwrite && options.is_gguf() != fs::is_directory(options.out);
  if (!may_replace)
    fail(ErrorCode::io, "{}: '{}' exists{}; choose another --out{}", options.who, options.out,
         fs::is_directory(options.out) ? " and is not empty" : "",
         options.overwrite ? "" : " or add --overwrite");
  for (const std::string& input : {options.common.model, options.adapter}) {
    if (!input.empty() && is_same(options.out, input))
      fail(ErrorCode::io, "{}: --out '{}' is also an input; choose another one", options.who,
           options.out);
  }
}

}  // namespace clora
