#include "tools/clora/adapters/result_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "runtime/fail.hpp"
#include "runtime/files/atomic_folder.hpp"
#include "tools/clora/training/run_folder.hpp"
#include "tools/command_line/local_path.hpp"

namespace clora {
namespace {

constexpr const char* kConfig = "adapter_config.json";

bool is_same_folder(const std::filesystem::path& one, const std::filesystem::path& other) {
  std::error_code ignored;
  return std::filesystem::equivalent(one, other, ignored);
}

nlohmann::ordered_json json_of(const ModuleError& module) {
  return {{"module", module.path},
          {"rank", module.rank},
          {"norm", module.norm},
          {"relative_error", module.relative()},
          {"kept_energy", module.kept_energy()}};
}

std::string ranks_of(const AdapterErrors& errors) {
  std::int64_t least = Adapter::kMaxRank, most = 0;
  for (const ModuleError& module : errors.modules) {
    if (module.rank == 0) continue;
    least = std::min(least, module.rank);
    most = std::max(most, module.rank);
  }
  return least == most ? fmt::format("rank {}", most) : fmt::format("ranks {} to {}", least, most);
}

std::size_t modules_in(const AdapterErrors& errors) {
  return static_cast<std::size_t>(
      std::ranges::count_if(errors.modules, [](const auto& module) { return module.rank > 0; }));
}

}  // namespace

void add_adapter_argument(CLI::App& command, std::string& adapter) {
  command.add_option("ADAPTER", adapter, "Adapter to read, in PEFT format")
      ->transform(LocalPath(HubKind::model))
      ->type_name("DIR")
      ->required();
}

void add_result_options(CLI::App& command, ResultOptions& options) {
  command.add_option("--out", options.out, "Folder to write the adapter to")
      ->type_name("DIR")
      ->required();
  command.add_flag("--overwrite", options.overwrite, "Replace the adapter in a non-empty --out");
  command.add_option("--dtype", options.type, "Type of the stored values: f32, f16 or bf16")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str();
  add_model_option(command, options.common);
  add_device_option(command, options.common);
  add_precision_option(command, options.common);
  add_data_options(command, options.data, "Report the loss on these records before and after");
  CLI::Option* const model = command.get_option("--model")->required(false);
  command.get_option("--data")->required(false)->needs(model);
  add_output_options(command, options.common);
}

DType type_of(const ResultOptions& options) {
  if (options.type == "f16") return DType::f16;
  return options.type == "bf16" ? DType::bf16 : DType::f32;
}

void require_free(const ResultOptions& options, std::span<const std::string> inputs) {
  for (const std::string& input : inputs) {
    if (!is_same_folder(options.out, input)) continue;
    fail(ErrorCode::io, "adapters: --out '{}' is also an input; choose another folder",
         options.out);
  }
  if (!is_occupied(options.out)) return;
  if (options.overwrite && std::filesystem::is_directory(options.out)) return;
  fail(ErrorCode::io,
       "adapters: '{}' exists and is not empty; choose another --out or add --overwrite",
       options.out);
}

void write_result(AdapterMatrices& adapter, const ResultOptions& options) {
  round_to(adapter, type_of(options));
  const AtomicFolder folder(options.out, kConfig);
  write_adapter_matrices(adapter, folder.partial(), type_of(options));
  folder.commit_files();
}

void report_errors(Output& output, const AdapterErrors& errors, const ErrorWords& words) {
  for (const ModuleError& module : errors.modules) {
    output.detail("  {}  rank {}  norm {:.4g}  error {:.2e}", module.path, module.rank, module.norm,
                  module.relative());
  }
  const ModuleError whole = errors.whole();
  const ModuleError& worst = errors.worst();
  output.result("{} modules, {}; relative error {:.2e} of {}; worst: {} with {:.2e}",
                modules_in(errors), ranks_of(errors), whole.relative(), words.wanted, worst.path,
                worst.relative());
  if (!words.energy) return;
  output.result("kept energy {:.4f} %; least: {} with {:.4f} %", 100 * whole.kept_energy(),
                worst.path, 100 * worst.kept_energy());
}

nlohmann::ordered_json json_of(const ResultOptions& options, const AdapterErrors& errors) {
  nlohmann::ordered_json modules = nlohmann::ordered_json::array();
  for (const ModuleError& module : errors.modules) modules.push_back(json_of(module));
  const ModuleError whole = errors.whole();
  return {{"adapter", options.out},
          {"relative_error", whole.relative()},
          {"kept_energy", whole.kept_energy()},
          {"worst", json_of(errors.worst())},
          {"modules", modules}};
}

}  // namespace clora
