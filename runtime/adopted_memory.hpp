// AdoptedMemory: the callers' buffers that one Context has views of (Context::adopt).
//
// Every view of one buffer, and of its sub-buffers, shares one entry: the root buffer, retained,
// and the sub-buffers that callers handed in or that kernels' arguments needed. The entry goes with
// the last of these views; then each object is released once, sub-buffers in the reverse order of
// their making as far as it is known here (docs/decisions/sub-buffers.md says why). A view may
// outlive this object. Threads: one at a time.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "runtime/opencl_handles.hpp"
#include "runtime/tensor.hpp"

namespace clora {

class AdoptedMemory {
 public:
  // base_alignment_bytes: the device's.
  AdoptedMemory(cl_context context, std::size_t base_alignment_bytes)
      : context_(context), base_alignment_bytes_(base_alignment_bytes) {}
  AdoptedMemory(const AdoptedMemory&) = delete;
  AdoptedMemory& operator=(const AdoptedMemory&) = delete;

  // `bytes` bytes of mem, from offset_bytes on. REQUIRES, errors: those of Context::adopt.
  std::shared_ptr<Storage> adopt(cl_mem mem, std::size_t offset_bytes, std::size_t bytes);

 private:
  struct Root;
  std::shared_ptr<Root> root_of(cl_mem mem);

  cl_context context_;
  std::size_t base_alignment_bytes_;
  std::map<cl_mem, std::weak_ptr<Root>> roots_;
};

}  // namespace clora
