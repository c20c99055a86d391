// The subcommands of clora. Each add_xxx_command() adds a command with its options and help to the
// program. Parsing a call of the command sets `action`, which does the work and returns the exit
// code.
#pragma once

#include "tools/command_line/program.hpp"

namespace clora {

// Adds all commands below, in the order of the help.
void add_all_commands(CLI::App& program, Action& action);

void add_train_command(CLI::App& program, Action& action);
void add_sweep_command(CLI::App& program, Action& action);
void add_compare_command(CLI::App& program, Action& action);
void add_plan_command(CLI::App& program, Action& action);
void add_eval_command(CLI::App& program, Action& action);
void add_data_command(CLI::App& program, Action& action);
void add_embed_command(CLI::App& program, Action& action);
void add_generate_command(CLI::App& program, Action& action);
void add_chat_command(CLI::App& program, Action& action);
void add_serve_command(CLI::App& program, Action& action);
void add_tokenize_command(CLI::App& program, Action& action);
void add_fuse_command(CLI::App& program, Action& action);
void add_convert_command(CLI::App& program, Action& action);
void add_quantize_command(CLI::App& program, Action& action);
void add_adapters_command(CLI::App& program, Action& action);
void add_devices_command(CLI::App& program, Action& action);
void add_doctor_command(CLI::App& program, Action& action);
void add_info_command(CLI::App& program, Action& action);
void add_bench_command(CLI::App& program, Action& action);

}  // namespace clora
