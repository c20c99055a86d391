// ops/tuned/tuned.json, embedded at build time.
#pragma once

#include "runtime/programs/kernel_sources.hpp"

namespace clora {

// Returns one text with static storage duration.
std::span<const KernelSource> embedded_tuned_table();

}  // namespace clora
