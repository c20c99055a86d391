#include "tools/clc/commands.hpp"
namespace clora {
void add_build_command(CLI::App&, Action&) {}
}
