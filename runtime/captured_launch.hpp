// A launch with all that it needs to run alone: text, options, grid, arguments, the memory that
// they name before it and after it. For capture.cpp.
//
// Its folder:
//   kernel.cl          the text with includes resolved (stand_alone_text())
//   call.json          {"format": "clora-capture", "version": 1, "op", "launch", "device", "file",
//                      "kernel", "options", "global", "local", "arguments": [...]}
//   0-x.npy            argument 0 before the launch, 0-x.expected.npy after it where it changed
// Arguments, in order, each with "kind", and "name" where the driver tells it:
//   array   "type", "shape", "tensor" (for people), "file", and "expected" where it changed
//   same    "of" (the position of an array), "offset_bytes" into its memory, "type", "shape"
//   null    no memory
//   local   "bytes" of local memory
//   value   "type" and "value", or "bytes" in hexadecimal for what is no number
// Quantised tensors are arrays of u8; bf16, which NumPy lacks, lies in its files as <u2.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/capture_request.hpp"
#include "runtime/commands.hpp"

namespace clora {

// Memory that arguments name, alone or together where they overlap.
struct CapturedMemory {
  Tensor bytes;           // u8, all of it
  std::size_t array = 0;  // the argument that stands for it
  std::vector<std::byte> before, after;
};

class CapturedLaunch {
 public:
  // Reads the memory of the arguments; waits. REQUIRES: the command is bound and outlives this.
  // Errors: device, device_lost.
  CapturedLaunch(Context& context, const KernelCommand& command);

  // Reads it again, after the launch; waits.
  void read_results();
  // The folder, whole or not at all. Builds the kernel once more for its arguments' names.
  // Errors: io; unsupported, for a kernel of unknown source.
  void write(const CaptureRequest& request) const;

 private:
  Context& context_;
  const KernelCommand& command_;
  std::vector<CapturedMemory> memory_;
};

}  // namespace clora
