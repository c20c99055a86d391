// Finds and runs clora_bench.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

// Searches for clora_bench next to this program, at its place in the build tree, and in the folders
// of `path`, which has the format of PATH. Errors: not_found, with how to build it.
std::filesystem::path find_bench_program(const std::filesystem::path& own_folder,
                                         std::string_view path);
// The folder of the running program; empty if the system does not report it.
std::filesystem::path own_folder();

struct BenchCall {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::filesystem::path error_file;                    // receives the program's stderr
  std::function<void(std::string_view line)> on_line;  // called for each line of stdout
  // Polled several times a second; true stops the program.
  std::function<bool()> stopped = [] { return false; };
};

// Runs the program to its end. Returns its exit code, or 128 + N if signal N ended it. Errors: io.
int run_bench_program(const BenchCall& call);

}  // namespace clora
