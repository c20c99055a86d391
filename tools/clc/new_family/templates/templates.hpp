// The files of a new op family as templates, embedded at build time: family.cl.in and others, with
// the placeholders @family@ and @Family@ for its name (tools/clc/new_family/new_family.hpp).
#pragma once

#include <span>

#include "runtime/programs/kernel_sources.hpp"

namespace clora {

// All .in files of tools/clc/new_family/templates, in file order. Static storage.
std::span<const KernelSource> embedded_family_templates();

}  // namespace clora
