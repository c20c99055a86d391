// MPI in the program: whether it was built with it, and the ranks of a run that mpirun started.
#pragma once

#include <memory>
#include <string>

#include "clora/model/training/communicator.hpp"

namespace clora {

// The ranks if mpirun, or srun with PMIx, started this process as one of several; else null. Call
// once. Errors: unsupported, if the program was built without MPI: each process would run alone.
std::unique_ptr<Communicator> start_mpi_ranks();

// "Open MPI v4.1.4"; empty if the program was built without MPI.
std::string built_in_mpi();

}  // namespace clora
