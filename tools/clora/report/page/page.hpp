// The style sheets and the script of pages, embedded at build time.
#pragma once

#include "runtime/programs/kernel_sources.hpp"

namespace clora {

// The files of this folder, by their names, with static storage duration.
std::span<const KernelSource> embedded_page_parts();

}  // namespace clora
