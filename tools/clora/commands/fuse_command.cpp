// clora fuse: merges an adapter into its base model and writes the result as a Hugging Face folder
// or a GGUF file.
#include <CLI/CLI.hpp>
#include <memory>

#include "tools/clora/commands/commands.hpp"
#include "tools/clora/export/model_export.hpp"
#include "tools/command_line/byte_size.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora fuse --model MODEL.gguf --adapter my-adapter --out my-model
  clora fuse --model MODEL.gguf --adapter my-adapter --out my-model.gguf
  clora fuse --model MODEL --adapter my-adapter --out my-model.gguf --type q4_k
  clora fuse --model MODEL --adapter my-adapter --out my-model --type bf16 --max-shard-size 5GB
An --out that ends in .gguf is a GGUF file, with NAME.Modelfile for 'ollama create' next to it;
any other is a folder with config.json, model.safetensors and the tokeniser files. A GGUF file from
a GGUF model has its types unless --type says otherwise: tensors that the adapter does not change
are copied byte for byte. The written model is read back, and the largest difference between its
logits and those of the model with the adapter is reported, with the number of equal greedy tokens,
on a few prompts. Only then is it moved to --out.)";

}  // namespace

void add_fuse_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("fuse", "Merge an adapter into its base model");
  const auto options = std::make_shared<ExportOptions>();
  add_adapter_option(*command, options->adapter, "Adapter to merge; without, the model alone");
  command->add_option("--out", options->out, "Folder, or file NAME.gguf, to write the model to")
      ->type_name("PATH")
      ->required();
  command->add_option("--to", options->to, "Format, if --out does not tell it")
      ->check(CLI::IsMember({"safetensors", "gguf"}));
  command
      ->add_option("--type", options->type,
                   "Type of the weights: f32 (default), f16 or bf16; for GGUF also keep (default), "
                   "q8_0, q6_k, q5_k, q4_k, q5_1, q5_0, q4_1, q4_0")
      ->type_name("TYPE");
  command
      ->add_option("--max-shard-size", options->max_shard_bytes,
                   "Write safetensors in files of at most this size, such as 5GB (default: one "
                   "file)")
      ->type_name("SIZE")
      ->transform(ByteSize());
  add_export_options(*command, *options);
  add_run_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return export_model(*options); }; });
}

}  // namespace clora
