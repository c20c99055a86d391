#include "tools/clc/commands.hpp"
namespace clora {
void add_disasm_command(CLI::App&, Action&) {}
}
