// The numbers of a call that expressions may refer to: -D values, and arguments by their names in
// the kernel. Pure functions; thread-safe.
#pragma once

#include "ops/tuned/tuned_table.hpp"
#include "tools/clc/call/kernel_call.hpp"
#include "tools/clc/kernel_file/expression.hpp"

namespace clora {

Variables call_numbers(const KernelCall& call);

// The arguments that may be a length: positive integers in the kernel's argument types.
NamedNumbers call_sizes(const KernelCall& call);

}  // namespace clora
