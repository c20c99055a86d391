// clora convert: an adapter in another format.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "clora/model/adapter_files/adapter_files.hpp"
#include "lora/hub_cache.hpp"
#include "model/adapter_files/adapter_comparison.hpp"
#include "model/weights/base_config.hpp"
#include "runtime/fail.hpp"
#include "runtime/files/atomic_folder.hpp"
#include "runtime/make_folder.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/clora/training/run_folder.hpp"

namespace clora {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFooter = R"(Examples:
  clora convert --model MODEL --adapter my-adapter --to gguf --out my-adapter.gguf
  clora convert --model MODEL --adapter my-adapter --to mlx --out my-adapter-mlx
  clora convert --model MODEL.gguf --adapter theirs.gguf --to peft --out theirs
The adapter may be a folder of PEFT or of mlx-lm, or a GGUF file of llama.cpp. Of the model, only the
configuration is read. The written adapter is read back and compared before it is moved to --out.
Formats with one scale for all modules (gguf: one alpha) get other scales multiplied into B: exact
for powers of two, else rounded once. What a format cannot hold is an error that names it.)";

constexpr const char* kConfig = "adapter_config.json";
// What one rounding of B, and one of the scale, can explain.
constexpr double kMaxDifference = 1e-6;

struct Options {
  CommonOptions common;
  std::string adapter, to, out;
  bool overwrite = false;
};

bool is_same(const fs::path& one, const fs::path& other) {
  std::error_code ignored;
  return fs::equivalent(one, other, ignored);
}

// A file of the other format would stay in the folder and contradict the new one.
void require_free(const Options& options, AdapterFormat to) {
  if (is_same(options.out, options.adapter)) {
    fail(ErrorCode::io, "convert: --out '{}' is also the input; choose another path", options.out);
  }
  if (!is_occupied(options.out)) return;
  const bool is_folder = fs::is_directory(options.out);
  if (!options.overwrite || is_folder != (to != AdapterFormat::gguf)) {
    fail(ErrorCode::io, "convert: '{}' exists{}; choose another --out{}", options.out,
         is_folder ? " and is a folder" : "", options.overwrite ? "" : " or add --overwrite");
  }
  if (!is_folder || format_of_adapter(options.out) == to) return;
  fail(ErrorCode::io, "convert: '{}' has an adapter in the format {}; choose another --out",
       options.out, name_of(format_of_adapter(options.out)));
}

struct Written {
  ConversionNotes notes;
  double difference = 0;
};

// Writes to a path that is not the final one, and compares what is read from there.
Written write_and_compare(const AdapterValues& adapter, AdapterFormat to, const ModelConfig& model,
                          const fs::path& path) {
  Written written{.notes = write_adapter(adapter, to, model, path)};
  written.difference = largest_difference(adapter, read_adapter(path, model));
  if (written.difference > kMaxDifference) {
    fail(ErrorCode::invalid_data,
         "convert: the written adapter differs by {:.3g} of its largest value, which rounding does "
         "not explain; it was discarded",
         written.difference);
  }
  return written;
}

Written write_file(const AdapterValues& adapter, AdapterFormat to, const ModelConfig& model,
                   const fs::path& out) {
  fs::path partial = out;
  partial += ".partial";
  if (partial.has_parent_path()) make_folder(partial.parent_path(), "convert");
  std::error_code error;
  try {
    const Written written = write_and_compare(adapter, to, model, partial);
    fs::rename(partial, out, error);
    if (!error) return written;
  } catch (const Error&) {
    fs::remove(partial, error);
    throw;
  }
  fail(ErrorCode::io, "convert: '{}' cannot be moved to '{}': {}", partial.string(), out.string(),
       error.message());
}

Written write_folder(const AdapterValues& adapter, AdapterFormat to, const ModelConfig& model,
                     const fs::path& out) {
  const AtomicFolder folder(out, kConfig);
  const Written written = write_and_compare(adapter, to, model, folder.partial());
  folder.commit_files();
  return written;
}

std::string changes_text(const ConversionNotes& notes) {
  if (notes.folded == 0 && notes.padded == 0) return "no value changed";
  std::string text = fmt::format("the scale of {} modules is folded into B, ", notes.folded);
  text += notes.rounded == 0 ? "exactly" : fmt::format("{} of them rounded in f32", notes.rounded);
  if (notes.padded > 0) text += fmt::format("; {} modules are padded with zeros", notes.padded);
  return text;
}

int convert(const Options& options) {
  Output output(options.common.output);
  const AdapterFormat to = named_adapter_format(options.to);
  require_free(options, to);
  const ModelConfig model = read_model_config(options.common.model);
  const AdapterFormat from = format_of_adapter(options.adapter);
  AdapterValues adapter = read_adapter(options.adapter, model);
  if (adapter.config.base_model.empty()) {
    const std::string id = hub_id_of(options.common.model);
    adapter.config.base_model = id.empty() ? options.common.model : id;
  }
  output.result("read {} ({}): {} modules", options.adapter, name_of(from), adapter.modules.size());
  const Written written = to == AdapterFormat::gguf ? write_file(adapter, to, model, options.out)
                                                    : write_folder(adapter, to, model, options.out);
  output.result("wrote {} ({}): {}", options.out, options.to, changes_text(written.notes));
  output.result("read back: scale * B differs by at most {:.2g} of its largest value",
                written.difference);
  output.object({{"adapter", options.out},
                 {"from", name_of(from)},
                 {"to", options.to},
                 {"modules", adapter.modules.size()},
                 {"folded", written.notes.folded},
                 {"rounded", written.notes.rounded},
                 {"padded", written.notes.padded},
                 {"largest_relative_difference", written.difference}});
  return 0;
}

}  // namespace

void add_convert_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("convert", "Convert an adapter to another format");
  const auto options = std::make_shared<Options>();
  add_model_option(*command, options->common);
  add_adapter_option(*command, options->adapter, "Adapter to read")->required();
  command->add_option("--to", options->to, "Format to write")
      ->check(CLI::IsMember({"peft", "gguf", "mlx"}))
      ->type_name("peft|gguf|mlx")
      ->required();
  command->add_option("--out", options->out, "Folder, or file of gguf, to write the adapter to")
      ->type_name("PATH")
      ->required();
  command->add_flag("--overwrite", options->overwrite,
                    "Replace an adapter of the same format at --out");
  add_output_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return convert(*options); }; });
}

}  // namespace clora
