// AdoptedMemory: the callers' buffers that one Context has views of (Context::adopt).
//
// All views of one buffer and of its sub-buffers share one entry, which retains the root buffer and
// the sub-buffers that callers passed in or that kernel arguments needed. The entry ends with its
// last view. Each object is then released once; sub-buffers are released in the reverse order of
// their creation, as far as known here (docs/decisions/sub-buffers.md says why). A view may
// outlive this object. Threads: one at a time.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "clora/runtime/device/opencl_handles.hpp"
#include "clora/runtime/memory/tensor.hpp"

namespace clora {

class AdoptedMemory {
 public:
  // base_alignment_bytes: Device::base_alignment_bytes.
  AdoptedMemory(cl_context context, std::size_t base_alignment_bytes)
      : context_(context), base_alignment_bytes_(base_alignment_bytes) {}
  AdoptedMemory(const AdoptedMemory&) = delete;
  AdoptedMemory& operator=(const AdoptedMemory&) = delete;

  // Returns a view of `bytes` bytes of mem that starts at offset_bytes. REQUIRES and errors are
  // those of Context::adopt.
  std::shared_ptr<Storage> adopt(cl_mem mem, std::size_t offset_bytes, std::size_t bytes);

 private:
  struct Root;
  std::shared_ptr<Root> root_of(cl_mem mem);

  cl_context context_;
  std::size_t base_alignment_bytes_;
  std::map<cl_mem, std::weak_ptr<Root>> roots_;
};

}  // namespace clora
