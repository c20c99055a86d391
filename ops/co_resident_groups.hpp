// Which launches may count on co-resident work-groups: groups that all run at once, so that they
// can wait for one another within the launch (a grid barrier, cl/grid_barrier*.clh). OpenCL
// promises that of no device. This is the one place that decides it; a kernel with a grid barrier
// is taken only where it says so, and has a path of separate launches for everywhere else.
//
// It takes all of: a driver whose scheduler is known (NVIDIA GPUs from sm_80 on, pocl's threaded
// device); a queue of our own, since a caller may run further queues beside an adopted one; a
// process that does not share a GPU's units with others (NVIDIA's MPS); a Context that is not
// portable; and of pocl's threads, which all Contexts of a process share, that no other Context
// counts on them. A group that waits in vain all the same gives up after some seconds and sets a
// flag, which the host reads.
#pragma once

#include <cstdint>

#include "runtime/context.hpp"

namespace clora {

// What decides it.
struct CoResidencyFacts {
  Device device;
  Variant variant = Variant::portable;
  bool adopted = false;       // the Context stands on a caller's queue
  bool shares_units = false;  // processes share the GPU's units (MPS)
};
// One work-group a compute unit, or 0: none may wait for another.
std::uint32_t co_resident_groups(const CoResidencyFacts& facts);

// The same of a Context. On pocl the first Context of a process that asks, and could have them, has
// the threads until it is destroyed; all others get 0.
// Threads: those of the Context; Contexts of several threads may ask at once.
std::uint32_t co_resident_groups(Context& context);

}  // namespace clora
