// clora: LoRA fine-tuning and serving on any OpenCL device. See command_line.hpp.
#include "tools/clora/commands/command_line.hpp"

int main(int count, char** arguments) {
  return clora::run_command_line({arguments + 1, arguments + count});
}
