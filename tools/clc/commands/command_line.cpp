#include <CLI/CLI.hpp>

#include "tools/clc/commands/command_line.hpp"

#include "tools/clc/commands/commands.hpp"
#include "tools/clc/compile/device_build.hpp"

#ifndef CLORA_VERSION
#define CLORA_VERSION "unknown"
#endif

namespace clora {
namespace {

constexpr const char* kFooter = R"(Write, compile and inspect, run, measure:
  clc build my_kernel.cl                on every device
  clc lint my_kernel.cl                 find what is not portable
  clc stats my_kernel.cl                registers and spills, without a GPU
  clc run, check, bench, tune my_kernel.cl --global 1024 --arg 'x=rand(f32,1024)' ...
docs/kernel_authoring.md walks through writing a kernel.
'clc COMMAND --help' lists the options of a command, with examples.
Exit codes: 0 success, 1 findings or a failure, 2 usage error.)";

void add_commands(CLI::App& program, Action& action) {
  add_new_command(program, action);
  add_build_command(program, action);
  add_matrix_command(program, action);
  add_stats_command(program, action);
  add_disasm_command(program, action);
  add_lint_command(program, action);
  add_check_command(program, action);
  add_run_command(program, action);
  add_replay_command(program, action);
  add_bench_command(program, action);
  add_tune_command(program, action);
  add_trace_command(program, action);
  add_cache_command(program, action);
  add_devices_command(program, action);
  add_doctor_command(program, action);
  add_embed_command(program, action);
  add_device_build_command(program, action);
}

}  // namespace

int run_clc(const std::vector<std::string>& arguments) {
  return run_program({.name = "clc",
                      .version = CLORA_VERSION,
                      .description = "clc: builds, checks, measures and tunes OpenCL kernels",
                      .footer = kFooter,
                      .add_commands = add_commands},
                     arguments);
}

}  // namespace clora
