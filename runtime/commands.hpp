// The commands of a Batch: what each holds, how it is bound once and enqueued many times. For
// batch.cpp.
//
// bind() fixes everything that a replay needs; enqueue() then only calls OpenCL.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/batch.hpp"
#include "runtime/opencl.hpp"

namespace clora {

struct KernelCommand {
  Launch launch;
  std::vector<Argument> arguments;
  OwnedKernel kernel;  // bound
};

struct CopyCommand {
  Tensor dst;
  Tensor src;
  MemoryRegion to, from;  // bound
};

struct FillCommand {
  Tensor dst;
  MemoryRegion to;  // bound
};

struct UploadCommand {
  Tensor dst;
  std::span<const std::byte> src;  // the caller's
  MemoryRegion to;                 // bound
};

struct CallCommand {
  std::string label;
  std::vector<Tensor> uses;
  Batch::LibraryCall function;
  std::vector<MemoryRegion> regions;  // bound
};

struct MarkCommand {
  std::string name;
  std::size_t number = 0;  // of the batch's marks
};

using Command =
    std::variant<KernelCommand, CopyCommand, FillCommand, UploadCommand, CallCommand, MarkCommand>;

// The tensors that the command uses.
std::vector<Tensor> tensors_of(const Command& command);

// REQUIRES: every temporary has its place. Errors: invalid_argument, device, device_lost.
void bind(Command& command, Context& context);

// event: null where none is wanted. Errors: device.
void enqueue(const Command& command, cl_command_queue queue, cl_event* event);
// Asks the cache for the kernel object that the next enqueue() will have the driver write to: the
// device's threads wrote to it last. A replay of tiny kernels was seen to gain 3 % on pocl.
void fetch_ahead(const Command& command) noexcept;

// As in profiles: the kernel's label or function, "copy", "fill", "upload", a call's label, a
// mark's name.
std::string_view label_of(const Command& command);
// What the command's tensors look like in profiles: "[4, 16] q4_1[16, 16]".
std::string shape_of(const Command& command);
Cost cost_of(const Command& command);

// Leaves the command's OpenCL objects to a stuck driver.
void abandon(Command& command) noexcept;

}  // namespace clora
