// DeviceBlock: one cl_mem and the sub-buffers created from it. For the .cpp files of runtime/ only.
//
// Sub-buffers live as long as their block and are released in the reverse order of their creation
// (docs/decisions/sub-buffers.md). Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/device/opencl.hpp"

namespace clora {

class DeviceBlock {
 public:
  // Where a sub-buffer ends. exact: at the requested end, so a tool detects an overrun. to_the_end:
  // at the end of the block, so there is at most one per offset. exact_while_few: exact until there
  // are many. At each launch, NVIDIA's driver checks every sub-buffer that overlaps an argument's,
  // so exact is better there while there are few (docs/decisions/sub-buffers.md has the times).
  enum class Reach { exact, exact_while_few, to_the_end };

  DeviceBlock(OwnedMem mem, std::size_t bytes, Reach reach);
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;
  ~DeviceBlock();

  cl_mem handle() const noexcept { return mem_.get(); }
  std::size_t bytes() const noexcept { return bytes_; }

  // A cl_mem that starts at offset_bytes and has at least `bytes` bytes, created once: the handle
  // itself for offset 0. Errors: device.
  cl_mem part(std::size_t offset_bytes, std::size_t bytes);
  std::size_t parts() const noexcept { return parts_.size(); }
  // REQUIRES: no part is in use.
  void drop_parts() noexcept;

  bool committed = false;                // its pages are resident
  std::optional<std::uint64_t> address;  // on the device, once it has been requested

 private:
  OwnedMem mem_;
  std::size_t end_of(std::size_t offset_bytes, std::size_t bytes) const noexcept;

  std::size_t bytes_;
  Reach reach_;
  std::vector<OwnedMem> parts_;                                    // in creation order
  std::map<std::pair<std::size_t, std::size_t>, cl_mem> part_at_;  // by begin and end
};

}  // namespace clora
