#include "tools/clora/training/mpi_ranks.hpp"

#include <cstdlib>
#include <string_view>

#include "runtime/fail.hpp"
#ifdef CLORA_HAS_MPI
#include "clora/parallel/mpi_communicator.hpp"
#endif

namespace clora {
namespace {

// By the environment that Open MPI's mpirun and PMIx set.
bool is_mpi_rank() {
  const char* const size = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (size != nullptr) return std::string_view(size) != "1";
  return std::getenv("PMIX_RANK") != nullptr;
}

}  // namespace

#ifdef CLORA_HAS_MPI

std::unique_ptr<Communicator> start_mpi_ranks() {
  if (!is_mpi_rank()) return nullptr;
  return std::make_unique<MpiCommunicator>();
}

std::string built_in_mpi() { return mpi_version(); }

#else

std::unique_ptr<Communicator> start_mpi_ranks() {
  if (!is_mpi_rank()) return nullptr;
  fail(ErrorCode::unsupported,
       "train: this process is one of several that MPI started, but clora was built without MPI; "
       "install libopenmpi-dev and build again, or use the devices of one host with "
       "--device gpu:0,gpu:1");
}

std::string built_in_mpi() { return {}; }

#endif

}  // namespace clora
