// Ranks as threads of this process: several devices, one Context each, train one adapter.
#pragma once

#include <functional>

#include "clora/model/training/communicator.hpp"

namespace clora {

// Calls work(communicator) once for each rank: for rank 0 on the calling thread, for the others on
// threads of their own. Waits for all. If one throws, the others' exchanges fail with `cancelled`;
// the first exception is rethrown. REQUIRES: ranks >= 1; `work` may be called concurrently.
void run_thread_ranks(int ranks, const std::function<void(Communicator&)>& work);

}  // namespace clora
