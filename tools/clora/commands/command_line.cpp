#include <CLI/CLI.hpp>

#include "tools/clora/commands/command_line.hpp"

#include "tools/clora/commands/commands.hpp"

#ifndef CLORA_VERSION
#define CLORA_VERSION "unknown"
#endif

namespace clora {
namespace {

constexpr const char* kFooter = R"(Fine-tune, evaluate and generate:
  clora train    --model MODEL.gguf --data FOLDER --adapter-out my-adapter --epochs 1
  clora eval     --model MODEL.gguf --data FOLDER/test.jsonl --adapter my-adapter
  clora generate --model MODEL.gguf --adapter my-adapter --prompt "Once upon a time"
'clora COMMAND --help' lists the options, defaults and units of a command.
Exit codes: 0 success, 2 usage error, 1 any other error.)";

}  // namespace

void add_all_commands(CLI::App& program, Action& action) {
  add_train_command(program, action);
  add_sweep_command(program, action);
  add_compare_command(program, action);
  add_plan_command(program, action);
  add_eval_command(program, action);
  add_data_command(program, action);
  add_embed_command(program, action);
  add_generate_command(program, action);
  add_chat_command(program, action);
  add_serve_command(program, action);
  add_tokenize_command(program, action);
  add_fuse_command(program, action);
  add_convert_command(program, action);
  add_quantize_command(program, action);
  add_adapters_command(program, action);
  add_devices_command(program, action);
  add_doctor_command(program, action);
  add_info_command(program, action);
  add_bench_command(program, action);
}

int run_command_line(const std::vector<std::string>& arguments) {
  return run_program(
      {.name = "clora",
       .version = CLORA_VERSION,
       .description = "clora: LoRA fine-tuning and serving of language models on OpenCL devices",
       .footer = kFooter,
       .add_commands = add_all_commands},
      arguments);
}

}  // namespace clora
