// DeviceBlock: one cl_mem and the sub-buffers made of it. For the .cpp files of runtime/ only.
//
// Sub-buffers stay as long as their block, and go in the reverse order of their making
// (docs/decisions/sub-buffers.md). Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/opencl.hpp"

namespace clora {

class DeviceBlock {
 public:
  // How far a sub-buffer reaches: exactly as far as was asked, so that a tool sees an overrun of
  // it; or to the end of the block, so that there is at most one for each offset. NVIDIA's driver
  // looks at every sub-buffer that overlaps an argument's at each launch, so there the second form
  // is taken only once there are many (docs/decisions/sub-buffers.md has the times).
  enum class Reach { exact, exact_while_few, to_the_end };

  DeviceBlock(OwnedMem mem, std::size_t bytes, Reach reach);
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;
  ~DeviceBlock();

  cl_mem handle() const noexcept { return mem_.get(); }
  std::size_t bytes() const noexcept { return bytes_; }

  // A cl_mem that begins at offset_bytes and holds at least `bytes` bytes, made once: the handle
  // itself for offset 0. Errors: device.
  cl_mem part(std::size_t offset_bytes, std::size_t bytes);
  std::size_t parts() const noexcept { return parts_.size(); }
  // REQUIRES: nothing uses a part any more.
  void drop_parts() noexcept;

  bool committed = false;                // its pages were forced into memory
  std::optional<std::uint64_t> address;  // on the device, where somebody asked for it

 private:
  OwnedMem mem_;
  std::size_t end_of(std::size_t offset_bytes, std::size_t bytes) const noexcept;

  std::size_t bytes_;
  Reach reach_;
  std::vector<OwnedMem> parts_;                                    // in the order of their making
  std::map<std::pair<std::size_t, std::size_t>, cl_mem> part_at_;  // by begin and end
};

}  // namespace clora
