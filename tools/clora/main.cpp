// clora: LoRA fine-tuning and serving on any OpenCL device. See command_line.hpp.
#include <csignal>

#include "tools/clora/command_line.hpp"

int main(int count, char** arguments) {
  // A reader that goes away must not end a training run; writing then fails, which Output handles.
  std::signal(SIGPIPE, SIG_IGN);
  return clora::run_command_line({arguments + 1, arguments + count});
}
