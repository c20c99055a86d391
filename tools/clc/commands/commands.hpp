// The commands of clc. Each add_xxx_command() adds a command with its options and help to the
// program. Parsing a call of the command sets `action`, which does the work and returns the exit
// code: 0 for success, 1 for findings or a failure, 2 for a usage error.
#pragma once

#include "tools/command_line/program.hpp"

namespace clora {

void add_new_command(CLI::App& program, Action& action);
void add_build_command(CLI::App& program, Action& action);
void add_matrix_command(CLI::App& program, Action& action);
void add_stats_command(CLI::App& program, Action& action);
void add_disasm_command(CLI::App& program, Action& action);
void add_lint_command(CLI::App& program, Action& action);
void add_check_command(CLI::App& program, Action& action);
void add_run_command(CLI::App& program, Action& action);
void add_replay_command(CLI::App& program, Action& action);
void add_bench_command(CLI::App& program, Action& action);
void add_tune_command(CLI::App& program, Action& action);
void add_trace_command(CLI::App& program, Action& action);
void add_cache_command(CLI::App& program, Action& action);
void add_cache_warm_command(CLI::App& cache, Action& action);  // of `clc cache`
void add_devices_command(CLI::App& program, Action& action);
void add_doctor_command(CLI::App& program, Action& action);
void add_embed_command(CLI::App& program, Action& action);

}  // namespace clora
