// Runs programs as a person does: arguments in, both streams and the exit code out.
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace clora::test {

struct ProgramResult {
  int exit_code = -1;  // 128 + N where signal N ended it
  std::string out;
  std::string err;

  // The lines of `out`, each parsed. Errors: nlohmann's, for a line that is no JSON.
  std::vector<nlohmann::json> json_lines() const;
};

struct ProgramCall {
  std::vector<std::string> arguments;
  std::string input = {};                     // standard input
  std::vector<std::string> environment = {};  // "NAME=VALUE", besides this program's
  std::string interrupt_after = {};           // SIGINT once, when this text is on either stream
  bool close_output = false;                  // nobody reads stdout
};

// The program `clora` of this build ($CLORA_BINARY_DIR). Ends it after ten minutes.
ProgramResult run_clora(const ProgramCall& call);
ProgramResult run_clora(const std::vector<std::string>& arguments);

}  // namespace clora::test
