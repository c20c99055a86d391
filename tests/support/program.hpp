// Runs programs as a user does: arguments in, both streams and the exit code out.
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace clora::test {

struct ProgramResult {
  int exit_code = -1;  // 128 + N if signal N ended it
  std::string out;
  std::string err;

  // The lines of `out`, each parsed. Errors: nlohmann's, for a line that is not JSON.
  std::vector<nlohmann::json> json_lines() const;
};

struct ProgramCall {
  std::vector<std::string> arguments;
  std::string input = {};                     // standard input
  std::vector<std::string> environment = {};  // "NAME=VALUE", added to this program's
  std::string interrupt_after = {};           // sends SIGINT once this text is on either stream
  bool close_output = false;                  // stdout has no reader
};

// Runs a program by its path. Kills it after ten minutes.
ProgramResult run_program(const std::filesystem::path& program, const ProgramCall& call);
// A program that runs concurrently with the test. Its error stream is this program's. The
// destructor kills it if it still runs.
class RunningProgram {
 public:
  RunningProgram(const std::filesystem::path& program, const ProgramCall& call);
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  // The next line of its output; nothing at the end.
  std::string read_line();
  // Sends the signal and waits for the end. Returns the exit code, or 128 + N if signal N ended it.
  int end_by(int signal);

 private:
  int child_ = -1;
  int out_ = -1;
};

// A program of this build, by its path relative to $CLORA_BINARY_DIR.
std::filesystem::path built_program(std::string_view relative);

// Runs the program `clora` of this build ($CLORA_BINARY_DIR). Kills it after ten minutes.
ProgramResult run_clora(const ProgramCall& call);
ProgramResult run_clora(const std::vector<std::string>& arguments);
// The same for the program `clc`.
ProgramResult run_clc(const ProgramCall& call);
ProgramResult run_clc(const std::vector<std::string>& arguments);

}  // namespace clora::test
