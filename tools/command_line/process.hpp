// Runs another program to its end with a time limit: compilers, oclgrind, clc itself for a build
// that may crash or hang a driver, and a user's own evaluation.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

struct ProcessResult {
  enum class End { exited, killed, out_of_time };
  End end = End::exited;
  int code = 0;  // exit code, or the signal that killed the process
  std::string out, err;
  double seconds = 0;

  bool succeeded() const noexcept { return end == End::exited && code == 0; }
};

// Runs `command`, whose first word is searched in PATH, with `environment` added to the current one
// and `input` as its stdin. After `seconds` the process and its children are killed. Errors:
// not_found if there is no such program; io.
ProcessResult run_process(const std::vector<std::string>& command, double seconds,
                          const std::map<std::string, std::string>& environment = {},
                          std::string_view input = {});

// "ended with exit code 3", "was killed by signal 11 (Segmentation fault)", "was not done in 20 s"
std::string end_text(const ProcessResult& result);

// Whether PATH contains the program.
bool has_program(std::string_view name);

}  // namespace clora
