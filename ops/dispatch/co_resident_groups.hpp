// Which launches may rely on co-resident work-groups: groups that all run at once, so that they can
// wait for one another within the launch (a grid barrier, cl/grid_barrier*.clh). OpenCL guarantees
// this on no device. The decision is made only here; a kernel with a grid barrier runs only if it
// is positive, and a path of separate launches covers all other cases.
//
// All of these must hold: the driver's scheduler is known (NVIDIA GPUs from sm_80 on, pocl's
// threaded device); the queue is our own, since a caller may use further queues next to an adopted
// one; no other process shares the GPU's compute units (NVIDIA's MPS); the Context is not portable;
// and no other Context has reserved pocl's threads, which all Contexts of a process share. If the
// groups are not co-resident after all, a waiting group gives up after some seconds and sets a
// flag, which the host reads.
#pragma once

#include <cstdint>

#include "clora/runtime/context.hpp"

namespace clora {

// The facts that decide it.
struct CoResidencyFacts {
  Capabilities capabilities;
  std::uint32_t compute_units = 0;
  bool adopted = false;       // the Context uses a caller's queue
  bool shares_units = false;  // processes share the GPU's units (MPS)
};
CoResidencyFacts facts_of(const Context& context);
// The number of co-resident work-groups: one per compute unit, or 0 if none may wait for another.
std::uint32_t co_resident_groups(const CoResidencyFacts& facts);

// The same for a Context. On pocl the first eligible Context of a process that calls this reserves
// the threads until it is destroyed; all others get 0.
// Threads: those of the Context; different Contexts may call this concurrently.
std::uint32_t co_resident_groups(Context& context);

}  // namespace clora
