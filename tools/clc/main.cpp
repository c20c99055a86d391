// clc: the kernel author's workbench. See command_line.hpp.
#include "tools/clc/commands/command_line.hpp"

int main(int count, char** arguments) { return clora::run_clc({arguments + 1, arguments + count}); }
