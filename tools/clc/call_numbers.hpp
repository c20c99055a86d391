// The numbers of a call that expressions may name: -D values, and arguments by their names in the
// kernel. Pure functions; thread-safe.
#pragma once

#include "ops/tuned_table.hpp"
#include "tools/clc/expression.hpp"
#include "tools/clc/kernel_call.hpp"

namespace clora {

Variables call_numbers(const KernelCall& call);

// Of the arguments those that are whole numbers above 0 in the kernel's own types: what may be a
// length.
NamedNumbers call_sizes(const KernelCall& call);

}  // namespace clora
