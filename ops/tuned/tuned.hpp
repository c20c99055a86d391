// The measured -D values with which an op builds a kernel on this device (docs/clc.md): from the
// user's own table (ContextConfig::tuned_table) first, then from the project's,
// ops/tuned/tuned.json. On devices that are in neither, the op uses its defaults.
//
// Both tables are read once per Context. A table that cannot be read is ignored with a warning to
// Hooks::log. An op validates the values: a table is a file that anyone may have written.
// Threads: those of the Context.
#pragma once

#include <string_view>

#include "clora/runtime/context.hpp"
#include "ops/tuned/tuned_table.hpp"

namespace clora {

// A kernel about to be built: `fixed` are its options except the tuned parameters, `sizes` the
// integer arguments that the choice may depend on, by their names in the kernel.
struct TunableKernel {
  std::string_view file;    // "gemm.cl"
  std::string_view kernel;  // "gemm"
  const Defines& fixed;
  NamedNumbers sizes;
};

// The values of the entry with the nearest sizes; empty if nothing was measured.
NamedNumbers tuned_values(Context& context, const TunableKernel& kernel);

// The value of a parameter in `values`, or its default.
template <class Number>
Number tuned_or(const NamedNumbers& values, std::string_view name, Number fallback) {
  const auto found = values.find(name);
  return found == values.end() ? fallback : static_cast<Number>(found->second);
}

// The path of config's own table; empty if nothing is cached on disk.
std::filesystem::path tuned_table_path(const ContextConfig& config);

// The ops/tuned/tuned.json that was embedded at build time.
TunedTable project_tuned_table();

}  // namespace clora
