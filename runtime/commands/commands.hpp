// The commands of a Batch: their contents, and how each is bound once and enqueued many times. For
// batch.cpp.
//
// bind() prepares everything that a replay needs; enqueue() then only calls OpenCL.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "clora/runtime/commands/batch.hpp"
#include "runtime/device/opencl.hpp"

namespace clora {

struct KernelCommand {
  Launch launch;
  std::vector<Argument> arguments;
  OwnedKernel kernel;  // set by bind()
};

struct CopyCommand {
  Tensor dst;
  Tensor src;
  MemoryRegion to, from;  // set by bind()
};

struct FillCommand {
  Tensor dst;
  MemoryRegion to;  // set by bind()
};

struct UploadCommand {
  Tensor dst;
  std::span<const std::byte> src;  // the caller's memory
  MemoryRegion to;                 // set by bind()
};

struct CallCommand {
  std::string label;
  std::vector<Tensor> uses;
  Batch::LibraryCall function;
  std::vector<MemoryRegion> regions;  // set by bind()
};

struct MarkCommand {
  std::string name;
  std::size_t number = 0;  // index among the batch's marks
};

using Command =
    std::variant<KernelCommand, CopyCommand, FillCommand, UploadCommand, CallCommand, MarkCommand>;

// The tensors that the command uses.
std::vector<Tensor> tensors_of(const Command& command);

// REQUIRES: every temporary has a location. Errors: invalid_argument, device, device_lost.
void bind(Command& command, Context& context);

// event: null if none is wanted. Errors: device.
void enqueue(const Command& command, cl_command_queue queue, cl_event* event);
// Prefetches the kernel object that the next enqueue() will have the driver write to; the device's
// threads wrote to it last. On pocl a replay of tiny kernels gained 3 %.
void fetch_ahead(const Command& command) noexcept;

// The label shown in profiles: the kernel's label or function, "copy", "fill", "upload", a call's
// label or a mark's name.
std::string_view label_of(const Command& command);
// The shapes of the command's tensors as shown in profiles: "[4, 16] q4_1[16, 16]".
std::string shape_of(const Command& command);
// A line of Batch::launches_text().
std::string launch_text(const KernelCommand& command, Context& context);
Cost cost_of(const Command& command);

// Leaks the command's OpenCL objects, because a stuck driver may still use them.
void abandon(Command& command) noexcept;

}  // namespace clora
