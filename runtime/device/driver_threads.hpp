// The threads with which pocl computes, each on a processor of its own.
//
// Otherwise Linux may wake two of them on one processor while another one is idle, for many
// launches in a row, and a product takes twice as long (docs/decisions/pinned-threads.md).
#pragma once

namespace clora {

// Makes pocl pin its threads, by POCL_AFFINITY=1 in the environment of the process. Does nothing if
// the variable is set, on systems without affinities, or unless pocl has a thread for each
// processor: the calling thread may run on all of them, and neither POCL_MAX_PTHREAD_COUNT nor its
// later name POCL_CPU_MAX_CU_COUNT is set. pocl pins thread i to processor i, so it would leave a
// set that taskset(1) gave it, and it aborts the process if there is no such processor.
// Threads: changes the environment of the process (setenv), which no other thread may read at the
// same time. Call it in main(), before other threads start and before the first OpenCL call.
void pin_driver_threads() noexcept;

}  // namespace clora
