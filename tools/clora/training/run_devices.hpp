// RunDevices: the devices on which a training run computes, one for each rank: those that --device
// lists, as threads of this process, or one for each process that mpirun or srun started.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "clora/model/training/communicator.hpp"
#include "clora/model/training/training_config.hpp"
#include "tools/clora/device_list.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

class RunDevices {
 public:
  // selectors: the value of --device, with commas between several. With processes: one for each of
  // a host, in the order of their ranks; one for all; or "" or "gpu" for the GPUs of the host, one
  // each. Starts MPI if this process is one of several.
  // Errors: no_device; unsupported, as start_mpi_ranks(); invalid_argument if the numbers of
  // processes and devices of a host do not fit.
  explicit RunDevices(const std::string& selectors);

  std::int64_t count() const;  // ranks of the run
  // Whether rank 0 is in this process, which then prints and writes files.
  bool has_first() const;

  // Calls lead(device, ranks) for rank 0 and follow(device, ranks) for each other rank of this
  // process, at the same time; ranks is null if there is one only. Errors: those of these calls,
  // with the number of the rank unless it is 0.
  using Work = std::function<void(const RunDevice&, Communicator*)>;
  void run(const Work& lead, const Work& follow);

 private:
  std::unique_ptr<Communicator> processes_;  // null: one process
  std::vector<RunDevice> devices_;           // of the ranks in this process
};

// --device-shares.
void add_device_shares_option(CLI::App& command, TrainingRunConfig& config,
                              const std::string& group);

}  // namespace clora
