// DeviceAddresses: where blocks of device memory begin in the device's address space, so that a
// kernel is given a part of one as an address and no sub-buffer has to be made. For the .cpp files
// of runtime/ only.
//
// NVIDIA's driver looks at every sub-buffer that overlaps an argument's at each launch; an address
// costs nothing, but is more than OpenCL promises of clSetKernelArgSVMPointer, so it is tried first
// (docs/decisions/sub-buffers.md). The driver does not see that a kernel uses a block bound by its
// address: the pool frees none before the queue is idle.
// Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "runtime/buffer_pool.hpp"
#include "runtime/device_health.hpp"
#include "runtime/opencl.hpp"
#include "runtime/program_cache.hpp"

namespace clora {

class DeviceAddresses {
 public:
  // wanted: whether addresses are tried at all. The queue and the cache must outlive this.
  DeviceAddresses(cl_context context, cl_command_queue queue, const Device& device,
                  ProgramCache& programs, std::shared_ptr<DeviceHealth> health, bool wanted);
  DeviceAddresses(const DeviceAddresses&) = delete;
  DeviceAddresses& operator=(const DeviceAddresses&) = delete;

  // Of the first byte of the buffer's handle(); nothing where kernels take no addresses, or where
  // the memory is not the pool's. Waits for the device, once for each block.
  // Errors: device, device_lost.
  std::optional<std::uint64_t> of(const Buffer& buffer);

 private:
  bool are_taken();
  bool try_them();
  void prepare_to_ask();
  OwnedKernel make_kernel(std::string_view function);
  std::uint64_t ask(cl_mem memory);
  void launch(cl_kernel kernel);
  std::uint64_t read_word(std::size_t i);

  cl_context context_;
  cl_command_queue queue_;
  cl_device_id device_;
  ProgramCache& programs_;
  std::shared_ptr<DeviceHealth> health_;
  std::optional<bool> taken_;          // nothing: not tried yet
  OwnedMem words_;                     // two of 64 bits
  std::array<std::uint64_t, 2> read_;  // a transfer's target: as long-lived as the queue
  OwnedKernel address_, write_;        // members: a stuck device keeps them
};

}  // namespace clora
