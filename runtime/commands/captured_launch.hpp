// A launch with everything needed to run it alone: kernel text, options, grid, arguments, and the
// memory that they refer to before and after the launch. For capture.cpp.
//
// Its folder:
//   kernel.cl          the text with includes resolved (stand_alone_text())
//   call.json          {"format": "clora-capture", "version": 1, "op", "launch", "device", "file",
//                      "kernel", "options", "global", "local", "arguments": [...]}
//   0-x.npy            argument 0 before the launch; 0-x.expected.npy after it, if it changed
// Arguments, in order, each with "kind", and with "name" if the driver reports it:
//   array   "type", "shape", "tensor" (informative), "file", and "expected" if it changed
//   same    "of" (the position of an array), "offset_bytes" into its memory, "type", "shape"
//   null    no memory
//   local   "bytes" of local memory
//   value   "type" and "value", or "bytes" in hexadecimal for a value that is not a number
// Quantised tensors are arrays of u8; bf16, which NumPy lacks, is stored as <u2.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "clora/runtime/commands/capture_request.hpp"
#include "runtime/commands/commands.hpp"

namespace clora {

// Memory that one argument refers to, or several arguments whose ranges overlap.
struct CapturedMemory {
  Tensor bytes;           // u8, the full range
  std::size_t array = 0;  // the argument that represents it
  std::vector<std::byte> before, after;
};

class CapturedLaunch {
 public:
  // Reads the memory of the arguments; waits. REQUIRES: the command is bound and outlives this.
  // Errors: device, device_lost.
  CapturedLaunch(Context& context, const KernelCommand& command);

  // Reads the memory again, after the launch; waits.
  void read_results();
  // Writes the folder, all or nothing. Builds the kernel once more for its arguments' names.
  // Errors: io; unsupported, for a kernel of unknown source.
  void write(const CaptureRequest& request) const;

 private:
  Context& context_;
  const KernelCommand& command_;
  std::vector<CapturedMemory> memory_;
};

}  // namespace clora
