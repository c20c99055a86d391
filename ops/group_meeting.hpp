// Which devices run all work-groups of a small launch at once, so that groups can wait for one
// another within it (cl/group_meeting.clh). OpenCL promises that of none.
#pragma once

#include <cstdint>

#include "runtime/device.hpp"
#include "runtime/program_cache.hpp"

namespace clora {

// How many work-groups surely run side by side: one a compute unit on NVIDIA's cards and on pocl's
// threaded device; 0 where that is not known.
std::uint32_t groups_side_by_side(const Device& device);

// NVIDIA's cards from sm_80 on.
bool speaks_ptx(const Device& device);

// Sets -D WARPS where kernels may say things of a warp in PTX: NVIDIA cards.
Defines& set_warps(Defines& defines, const Device& device);

}  // namespace clora
