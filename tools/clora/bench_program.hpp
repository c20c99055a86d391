// Finding and running clora_bench.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

// clora_bench beside this program, where the build tree has it, or in a folder of `path`, the form
// of PATH. Errors: not_found, with how to build it.
std::filesystem::path find_bench_program(const std::filesystem::path& own_folder,
                                         std::string_view path);
// The folder of the running program; empty where the system does not tell.
std::filesystem::path own_folder();

struct BenchCall {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::filesystem::path error_file;                    // takes the program's error stream
  std::function<void(std::string_view line)> on_line;  // of its output, as it comes
  // Asked several times a second: true ends the program.
  std::function<bool()> stopped = [] { return false; };
};

// Runs the program to its end: the exit code, 128 + N where signal N ended it. Errors: io.
int run_bench_program(const BenchCall& call);

}  // namespace clora
