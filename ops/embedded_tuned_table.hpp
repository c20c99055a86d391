// ops/tuned.json, embedded at build time.
#pragma once

#include "runtime/kernel_sources.hpp"

namespace clora {

// One text. Static storage.
std::span<const KernelSource> embedded_tuned_table();

}  // namespace clora
