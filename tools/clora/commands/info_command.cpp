// clora info: describes a model or an adapter.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "clora/lora/peft_files.hpp"
#include "clora/lora/safetensors.hpp"
#include "clora/model/adapter_files/adapter_files.hpp"
#include "clora/model/configuration/model_config.hpp"
#include "clora/model/files/gguf.hpp"
#include "clora/model/weights/weights.hpp"
#include "clora/runtime/files/json.hpp"
#include "tools/clora/commands/commands.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/clora/model_text.hpp"
#include "tools/command_line/local_path.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora info MODEL.gguf
  clora info my-adapter --verbose      with every tensor
Sizes are in MiB and GiB (1024^2 and 1024^3 bytes); parameters are counts of numbers.)";

using Json = nlohmann::ordered_json;

struct Options {
  CommonOptions common;
  std::string path;
};

struct TensorSum {
  std::int64_t tensors = 0, elements = 0;
  std::size_t bytes = 0;
};
using SumByType = std::map<std::string, TensorSum>;

void add(SumByType& sums, const std::string& type, std::int64_t elements, std::size_t bytes) {
  TensorSum& sum = sums[type];
  ++sum.tensors;
  sum.elements += elements;
  sum.bytes += bytes;
}

Json json_of(const SumByType& sums) {
  Json all = Json::object();
  for (const auto& [type, sum] : sums) {
    all[type] = {{"tensors", sum.tensors}, {"elements", sum.elements}, {"bytes", sum.bytes}};
  }
  return all;
}

void print(Output& output, const SumByType& sums) {
  for (const auto& [type, sum] : sums) {
    output.result("  {:<5} {:>4} tensors  {:>13} numbers  {:>10}", type, sum.tensors,
                  grouped(sum.elements), readable_bytes(static_cast<double>(sum.bytes)));
  }
}

std::int64_t elements_of(const SumByType& sums) {
  std::int64_t elements = 0;
  for (const auto& [type, sum] : sums) elements += sum.elements;
  return elements;
}

Json json_of(const ModelConfig& config) {
  return {{"architecture", config.family},
          {"name", config.name},
          {"layers", config.layers},
          {"model_width", config.hidden_size},
          {"feed_forward_width", config.intermediate_size},
          {"heads", config.heads},
          {"kv_heads", config.kv_heads},
          {"head_width", config.head_dim},
          {"vocabulary", config.vocabulary},
          {"max_positions", config.max_positions},
          {"rope_base", config.rope.base},
          {"tied_head", config.tied_head}};
}

Json json_of(const ChatSupport& support) {
  return {{"system", support.system},         {"tools", support.tools},
          {"tool_calls", support.tool_calls}, {"typed_content", support.typed_content},
          {"thinking", support.thinking},     {"generation", support.generation}};
}

// What the template renders besides users and assistants, for people.
std::vector<std::string> features_of(const ChatTemplate& chat) {
  const ChatSupport& support = chat.support();
  std::vector<std::string> features;
  features.emplace_back(support.system ? "system messages" : "no system messages");
  features.emplace_back(support.tools ? "tools" : "no tools");
  if (support.tool_calls) features.emplace_back("tool calls");
  if (support.typed_content) features.emplace_back("typed content");
  if (support.thinking) features.emplace_back("thinking");
  return features;
}

Json json_of(const ModelText& text) {
  if (!text.has_tokenizer()) return {{"tokenizer", nullptr}};
  const Tokenizer& tokenizer = text.tokenizer();
  Json object{{"vocabulary", tokenizer.vocabulary_size()}};
  if (tokenizer.bos()) object["bos"] = *tokenizer.bos();
  if (tokenizer.eos()) object["eos"] = *tokenizer.eos();
  if (tokenizer.sep()) object["sep"] = *tokenizer.sep();
  object["end_of_generation"] = tokenizer.end_of_generation();
  const ChatTemplate* chat = text.find_chat_template();
  Json description = nullptr;
  if (chat != nullptr) description = json_of(chat->support());
  return {{"tokenizer", object}, {"chat_template", description}};
}

void print(Output& output, const ModelConfig& config, std::int64_t parameters) {
  output.result("{}{}, {} parameters", config.family,
                config.name.empty() ? "" : " '" + config.name + "'", grouped(parameters));
  output.result(
      "{} layers, hidden size {}, intermediate size {}, "
      "{} heads and {} key/value heads of dim {}",
      config.layers, config.hidden_size, config.intermediate_size, config.heads, config.kv_heads,
      config.head_dim);
  output.result("vocabulary {}, {} positions, rope base {:g}, {} head", config.vocabulary,
                config.max_positions, config.rope.base, config.tied_head ? "tied" : "separate");
}

void print(Output& output, const ModelText& text) {
  if (!text.has_tokenizer()) {
    output.result("no tokeniser ({})", text.tokenizer_problem());
    return;
  }
  const Tokenizer& tokenizer = text.tokenizer();
  const std::vector<std::int32_t>& ends = tokenizer.end_of_generation();  // none: an encoder
  output.result("tokeniser: {} tokens{}{}", tokenizer.vocabulary_size(),
                ends.empty() ? "" : ", answers end at ", fmt::join(ends, ","));
  const ChatTemplate* chat = text.find_chat_template();
  if (chat == nullptr) {
    output.result("no known chat template ({})", text.chat_template_problem());
  } else {
    output.result("chat template: the model's own, with {}", fmt::join(features_of(*chat), ", "));
  }
}

std::vector<std::string> file_names(const WeightFiles& files) {
  std::vector<std::string> names;
  for (const std::filesystem::path& path : files.files()) names.push_back(path.filename().string());
  return names;
}

int show_model(const std::filesystem::path& path, Output& output) {
  const WeightFiles files = WeightFiles::open(path);
  const ModelText text(path);
  SumByType sums;
  for (const WeightView& weight : files.all()) {
    add(sums, std::string(name_of(weight.type)), weight.shape.elements(), size_bytes(weight));
    output.detail("  {:<5} {:<20} {}", name_of(weight.type), weight.shape.text(), weight.name);
  }
  print(output, files.config(), elements_of(sums));
  print(output, sums);
  print(output, text);
  const std::vector<std::string> names = file_names(files);
  if (names.size() > 1) output.result("in {} files, the first is {}", names.size(), names.front());
  if (files.gguf() != nullptr) {
    for (const auto& [key, value] : files.gguf()->metadata()) {
      output.detail("  {} = {}", key, value.summary());
    }
  }
  Json object{{"kind", "model"}, {"parameters", elements_of(sums)}};
  object.update(json_of(files.config()));
  object["files"] = names;
  object["tensors"] = json_of(sums);
  object.update(json_of(text));
  output.object(object);
  return 0;
}

SumByType sums_of(const SafetensorsFile& file, Output& output) {
  SumByType sums;
  for (const SafetensorsFile::Entry& entry : file.entries()) {
    std::int64_t elements = 1;
    for (const std::int64_t size : entry.dimensions) elements *= size;
    add(sums, entry.type_name, elements, entry.bytes.size());
    output.detail("  {:<5} [{}] {}", entry.type_name, fmt::join(entry.dimensions, ", "),
                  entry.name);
  }
  return sums;
}

int show_adapter(const std::filesystem::path& folder, Output& output) {
  const AdapterConfig config = read_adapter_config(folder);
  const SafetensorsFile file = SafetensorsFile::open(folder / "adapter_model.safetensors");
  const SumByType sums = sums_of(file, output);
  output.result("{} adapter, rank {}, alpha {:g}, dropout {:g}{}",
                config.use_dora ? "DoRA" : "LoRA", config.rank, config.alpha, config.dropout,
                config.rank_stabilised ? ", rank-stabilised" : "");
  output.result("of {}", config.base_model.empty() ? "an unnamed model" : config.base_model);
  output.result("modules {}", fmt::join(config.target_modules, ", "));
  print(output, sums);
  output.object({{"kind", "adapter"},
                 {"rank", config.rank},
                 {"alpha", config.alpha},
                 {"dropout", config.dropout},
                 {"rank_stabilised", config.rank_stabilised},
                 {"use_dora", config.use_dora},
                 {"target_modules", config.target_modules},
                 {"base_model", config.base_model},
                 {"parameters", elements_of(sums)},
                 {"tensors", json_of(sums)}});
  return 0;
}

// An adapter that lists its modules by its tensors alone.
void print_found(Output& output, AdapterFormat format, const std::string& scale,
                 const SumByType& sums) {
  output.result("adapter in the format {}, {}", name_of(format), scale);
  print(output, sums);
  output.object({{"kind", "adapter"},
                 {"format", name_of(format)},
                 {"parameters", elements_of(sums)},
                 {"tensors", json_of(sums)}});
}

int show_mlx_adapter(const std::filesystem::path& folder, Output& output) {
  const SafetensorsFile file = SafetensorsFile::open(folder / "adapters.safetensors");
  const SumByType sums = sums_of(file, output);
  const auto config = read_json_file(folder / "adapter_config.json");
  print_found(output, AdapterFormat::mlx,
              json_excerpt(config.value("lora_parameters", nlohmann::json::object()), 200), sums);
  return 0;
}

int show_gguf_adapter(const std::filesystem::path& path, Output& output) {
  const GgufFile file = GgufFile::open(path);
  SumByType sums;
  for (const GgufTensor& tensor : file.tensors()) {
    const std::string type = ggml_type_name(tensor.type_number);
    add(sums, type, tensor.shape.elements(), tensor.bytes.size());
    output.detail("  {:<5} {:<20} {}", type, tensor.shape.text(), tensor.name);
  }
  for (const auto& [key, value] : file.metadata()) {
    output.detail("  {} = {}", key, value.summary());
  }
  const std::string scale =
      fmt::format("alpha {:g}, of {}", file.number("adapter.lora.alpha").value_or(0),
                  file.text("general.architecture").value_or("an unnamed architecture"));
  print_found(output, AdapterFormat::gguf, scale, sums);
  return 0;
}

bool is_gguf_adapter(const std::filesystem::path& path) {
  if (path.extension() != ".gguf") return false;
  return GgufFile::open(path).text("general.type") == "adapter";
}

int info(const Options& options) {
  Output output(options.common.output);
  const std::filesystem::path path = options.path;
  if (is_gguf_adapter(path)) return show_gguf_adapter(path, output);
  if (!std::filesystem::exists(path / "adapter_config.json")) return show_model(path, output);
  if (format_of_adapter(path) == AdapterFormat::mlx) return show_mlx_adapter(path, output);
  return show_adapter(path, output);
}

}  // namespace

void add_info_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("info", "Show the contents of a model or an adapter");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("PATH,--model,--adapter", options->path,
                   "Model (.gguf file or folder) or adapter folder")
      ->transform(LocalPath(HubKind::model))
      ->required();
  add_output_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return info(*options); }; });
}

}  // namespace clora
