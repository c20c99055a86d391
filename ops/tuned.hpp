// Which -D values an op builds a kernel with on this device, where they were measured
// (docs/clc.md): the user's own table first (ContextConfig::tuned_table), then the project's,
// ops/tuned.json. Devices that neither names get the op's defaults.
//
// Both tables are read once a Context. A table that cannot be read counts as none, and Hooks::log
// hears a warning. An op checks what it is given: a table is a file that anyone may have written.
// Threads: those of the Context.
#pragma once

#include <string_view>

#include "ops/tuned_table.hpp"
#include "runtime/context.hpp"

namespace clora {

// A kernel about to be built: `fixed` are its options but for the tuned parameters, `sizes` the
// integer arguments that the choice may depend on, by the names they have in the kernel.
struct TunableKernel {
  std::string_view file;    // "gemm.cl"
  std::string_view kernel;  // "gemm"
  const Defines& fixed;
  NamedNumbers sizes;
};

// The values of the entry whose sizes are nearest; none where nothing was measured.
NamedNumbers tuned_values(Context& context, const TunableKernel& kernel);

// What `values` say of a parameter, else its default.
template <class Number>
Number tuned_or(const NamedNumbers& values, std::string_view name, Number fallback) {
  const auto found = values.find(name);
  return found == values.end() ? fallback : static_cast<Number>(found->second);
}

// Where config's own table lies; empty where nothing is kept on disk.
std::filesystem::path tuned_table_path(const ContextConfig& config);

// ops/tuned.json as it was when this was built.
TunedTable project_tuned_table();

}  // namespace clora
