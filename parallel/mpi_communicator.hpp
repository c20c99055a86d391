// MpiCommunicator: ranks as processes that mpirun, or srun with PMIx, has started. The library
// clora_parallel, which is built where CMake finds MPI; clora's other libraries do not need MPI.
//
// Sums are added by clora, not by MPI, so that they have the same bits as those of threads
// (model/training/thread_ranks.hpp), whatever MPI does.
#pragma once

#include <memory>
#include <string>

#include "clora/model/training/communicator.hpp"

namespace clora {

// "Open MPI v4.1.4": the library that this program uses.
std::string mpi_version();

class MpiCommunicator final : public Communicator {
 public:
  // Initialises MPI. One object per process, ever; on the thread that uses it. Errors: unsupported,
  // if MPI cannot start.
  MpiCommunicator();
  // Ends MPI, with the other ranks. If an exception is being thrown, they are ended instead when
  // this process exits, so that none waits for it.
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const noexcept override;
  int size() const noexcept override;
  // Errors: cancelled, within about a second, if the process of a rank on this host has ended. MPI
  // itself ends all if one on another host does.
  void sum(std::span<float> values) override;
  std::vector<std::string> all_gather(std::string_view bytes) override;
  // A long message is transferred while this rank or the other is in a call of this class.
  void send(int to, std::span<const std::byte> bytes) override;
  void receive(int from, std::span<std::byte> bytes) override;
  bool has_message(int from) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace clora
