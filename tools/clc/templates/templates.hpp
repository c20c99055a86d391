// The files of a new op family as texts, embedded at build time: family.cl.in and others, where
// @family@ and @Family@ stand for its name (tools/clc/new_family.hpp).
#pragma once

#include <span>

#include "runtime/kernel_sources.hpp"

namespace clora {

// Every .in file of tools/clc/templates, in file order. Static storage.
std::span<const KernelSource> embedded_family_templates();

}  // namespace clora
