// DeviceAddresses: the start addresses of blocks of device memory in the device's address space. A
// kernel then takes part of a block as an address, and no sub-buffer is needed. For the .cpp files
// of runtime/ only.
//
// At each launch, NVIDIA's driver checks every sub-buffer that overlaps an argument's; an address
// costs nothing. OpenCL does not guarantee this use of clSetKernelArgSVMPointer, so it is tested
// first (docs/decisions/sub-buffers.md). The driver does not track that a kernel uses a block bound
// by address: the pool frees no such block before the queue is idle.
// Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "clora/runtime/device/device_health.hpp"
#include "clora/runtime/memory/buffer_pool.hpp"
#include "clora/runtime/programs/program_cache.hpp"
#include "runtime/device/opencl.hpp"

namespace clora {

class DeviceAddresses {
 public:
  // wanted: whether addresses are tried at all. The queue and the cache must outlive this.
  DeviceAddresses(cl_context context, cl_command_queue queue, const Device& device,
                  ProgramCache& programs, std::shared_ptr<DeviceHealth> health, bool wanted);
  DeviceAddresses(const DeviceAddresses&) = delete;
  DeviceAddresses& operator=(const DeviceAddresses&) = delete;

  // The address of the first byte of the buffer's handle(); nothing if kernels do not accept
  // addresses or the memory is not the pool's. Waits for the device, once per block.
  // Errors: device, device_lost.
  std::optional<std::uint64_t> of(const Buffer& buffer);

 private:
  bool are_accepted();
  bool try_them();
  void prepare_queries();
  OwnedKernel make_kernel(std::string_view function);
  std::uint64_t query(cl_mem memory);
  void launch(cl_kernel kernel);
  std::uint64_t read_word(std::size_t i);

  cl_context context_;
  cl_command_queue queue_;
  cl_device_id device_;
  ProgramCache& programs_;
  std::shared_ptr<DeviceHealth> health_;
  std::optional<bool> accepted_;       // empty: not tested yet
  OwnedMem words_;                     // two of 64 bits
  std::array<std::uint64_t, 2> read_;  // target of a transfer: must live as long as the queue
  OwnedKernel address_, write_;        // members, because a stuck device may still use them
};

}  // namespace clora
