// The chat page, embedded at build time.
#pragma once

#include "runtime/programs/kernel_sources.hpp"

namespace clora {

// Returns one text with static storage duration.
std::span<const KernelSource> embedded_chat_page();

}  // namespace clora
