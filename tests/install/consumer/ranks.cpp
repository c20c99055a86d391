// Links the component parallel, which needs MPI.
#include <cstdio>

#include "clora/parallel/mpi_communicator.hpp"

int main() { std::printf("linked with %s\n", clora::mpi_version().c_str()); }
