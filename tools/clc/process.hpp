// Another program, run to its end with a time limit: compilers, oclgrind, and clc itself for a
// build that may crash or hang a driver.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

struct ProcessResult {
  enum class End { exited, killed, out_of_time };
  End end = End::exited;
  int code = 0;  // the exit code, or the signal that killed it
  std::string out, err;
  double seconds = 0;

  bool succeeded() const noexcept { return end == End::exited && code == 0; }
};

// Runs `command`, its first word searched in PATH, with `environment` added to ours and nothing to
// read. Past `seconds` it is killed, with what it has started. Errors: not_found, where there is no
// such program; io.
ProcessResult run_process(const std::vector<std::string>& command, double seconds,
                          const std::map<std::string, std::string>& environment = {});

// "ended with exit code 3", "was killed by signal 11 (Segmentation fault)", "was not done in 20 s"
std::string end_text(const ProcessResult& result);

// Whether PATH has such a program.
bool has_program(std::string_view name);

}  // namespace clora
