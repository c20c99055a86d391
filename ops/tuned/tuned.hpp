// The measured -D values with which an op builds a kernel on this device (docs/clc.md): from the
// user's own table (ContextConfig::tuned_table) first, then from the project's,
// ops/tuned/tuned.json. On devices that are in neither, the op uses its defaults.
//
// Both tables are read once per Context. A table that cannot be read is ignored with a warning to
// Hooks::log. An op validates the values: a table is a file that anyone may have written.
// Threads: those of the Context.
#pragma once

#include <span>
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
NamedNumbers tuned_values(const Context& context, const TunableKernel& kernel);

// The value of a parameter in `values`, or its default.
template <class Number>
Number tuned_or(const NamedNumbers& values, std::string_view name, Number fallback) {
  const auto found = values.find(name);
  return found == values.end() ? fallback : static_cast<Number>(found->second);
}

// Plans multiply and add costs: their sums stay finite.
inline constexpr double kMaxCost = 1e12;

// The costs of the model with all of `names`, each from 0 to kMaxCost: of this device in the
// user's table, then in the project's, then the project's for other devices. An entry that lacks a
// name or has another value is passed over.
// Errors: invalid_argument if the project's table does not have the model.
NamedCosts tuned_costs(const Context& context, std::string_view model,
                       std::span<const std::string> names);

// The path of config's own table; empty if nothing is cached on disk.
std::filesystem::path tuned_table_path(const ContextConfig& config);

// The ops/tuned/tuned.json that was embedded at build time.
TunedTable project_tuned_table();

}  // namespace clora
