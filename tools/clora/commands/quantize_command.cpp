// clora quantize: writes a model as a GGUF file with another type of weights.
#include <CLI/CLI.hpp>
#include <memory>

#include "tools/clora/commands/commands.hpp"
#include "tools/clora/export/model_export.hpp"

namespace clora {
namespace {

constexpr const char* kFooter = R"(Examples:
  clora quantize --model MODEL --type q4_k --out MODEL-q4_k.gguf
  clora quantize --model MODEL-f16.gguf --type q8_0 --out MODEL-q8_0.gguf
Vectors stay f32, and the head is q6_k (q8_0 in a model of q8_0). The written model is read back and
compared with the original on a few prompts; the result shows the largest difference between logits,
the number of equal greedy tokens, and the divergence of the probabilities. NAME.Modelfile for
'ollama create' is written next to the file. 'clora fuse' merges an adapter at the same time.)";

}  // namespace

void add_quantize_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("quantize", "Write a model as GGUF in another type");
  const auto options = std::make_shared<ExportOptions>();
  options->who = "quantize";
  options->to = "gguf";
  command->add_option("--out", options->out, "File to write the model to")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--type", options->type,
                   "Type of the weights: f32, f16, bf16, q8_0, q6_k, q5_k, q4_k, q5_1, q5_0, q4_1, "
                   "q4_0")
      ->type_name("TYPE")
      ->required();
  add_export_options(*command, *options);
  add_run_options(*command, options->common);
  command->footer(kFooter);
  command->callback([options, &action] { action = [options] { return export_model(*options); }; });
}

}  // namespace clora
