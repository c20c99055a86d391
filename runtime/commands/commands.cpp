#include "runtime/commands/commands.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include "runtime/device/device_addresses.hpp"
#include "runtime/fail.hpp"
#include "runtime/programs/program.hpp"

namespace clora {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

MemoryRegion region_of(const Tensor& tensor) {
  return {tensor.storage()->mem, tensor.storage()->origin + tensor.offset_bytes()};
}

// The tensor's region. Errors: unsupported, if enqueue_zeros cannot fill it correctly.
MemoryRegion fillable_region_of(const Tensor& tensor, const Device& device) {
  constexpr std::size_t kMaxGpuFillEnd = std::size_t{8} << 30U;
  const MemoryRegion region = region_of(tensor);
  const std::size_t end = region.offset_bytes + tensor.bytes();
  if (device.kind == DeviceKind::gpu && end > kMaxGpuFillEnd) {
    fail(ErrorCode::unsupported,
         "batch: a fill of {} ends {} MiB into its buffer, and GPU drivers fill incorrectly beyond "
         "{} MiB; write the zeros with a kernel",
         tensor.text(), end >> 20U, kMaxGpuFillEnd >> 20U);
  }
  return region;
}

cl_int set_memory(cl_kernel kernel, cl_uint n, cl_mem mem) {
  return clSetKernelArg(kernel, n, sizeof mem, &mem);
}

// Sets the argument to the tensor's address, or to a cl_mem that starts at the tensor.
cl_int set_tensor(cl_kernel kernel, cl_uint n, const Tensor& tensor, Context& context) {
  if (tensor.empty()) return set_memory(kernel, n, nullptr);
  const MemoryRegion region = region_of(tensor);
  const std::size_t alignment = context.device().base_alignment_bytes;
  require(region.offset_bytes % alignment == 0,
          "batch: a kernel argument must start at a multiple of {} bytes, {} starts at {}",
          alignment, tensor.text(), region.offset_bytes);
  if (region.offset_bytes == 0) return set_memory(kernel, n, region.mem);
  const Buffer& buffer = *tensor.storage()->buffer;
  if (const auto address = context.addresses().of(buffer)) {
    void* const begin = reinterpret_cast<void*>(*address + region.offset_bytes);
    return clSetKernelArgSVMPointer(kernel, n, begin);
  }
  return set_memory(kernel, n,
                    buffer.part(region.offset_bytes - buffer.offset_bytes(),
                                std::max<std::size_t>(tensor.bytes(), 1)));
}

void bind_kernel(KernelCommand& command, Context& context) {
  const Kernel& kernel = command.launch.kernel;
  cl_int status = CL_SUCCESS;
  command.kernel.reset(clCreateKernel(kernel.program->handle(), kernel.function.c_str(), &status));
  check_opencl(status, fmt::format("batch: clCreateKernel({})", kernel.function));
  const cl_kernel own = command.kernel.get();
  for (std::size_t i = 0; i < command.arguments.size(); ++i) {
    const auto n = static_cast<cl_uint>(i);
    status = std::visit(
        Overloaded{
            [&](const Tensor& tensor) { return set_tensor(own, n, tensor, context); },
            [&](const LocalMemory& local) { return clSetKernelArg(own, n, local.bytes, nullptr); },
            [&](const ValueBytes& value) {
              return clSetKernelArg(own, n, value.bytes.size(), value.bytes.data());
            },
            [&](auto value) { return clSetKernelArg(own, n, sizeof value, &value); }},
        command.arguments[i]);
    check_opencl(status, fmt::format("batch: argument {} of kernel {}", i, kernel.function));
  }
}

void issue(const KernelCommand& command, cl_command_queue queue, cl_event* event) {
  const Grid& grid = command.launch.grid;
  const cl_int status =
      clEnqueueNDRangeKernel(queue, command.kernel.get(), 3, nullptr, grid.global.data(),
                             grid.local.data(), 0, nullptr, event);
  if (status == CL_SUCCESS) return;
  check_opencl(status, fmt::format("batch: enqueue of {} ({})", command.launch.kernel.function,
                                   command.launch.label));
}

void enqueue_marker(cl_command_queue queue, cl_event* event) {
  if (event == nullptr) return;
  check_opencl(clEnqueueMarkerWithWaitList(queue, 0, nullptr, event),
               "batch: clEnqueueMarkerWithWaitList");
}

void issue(const CopyCommand& copy, cl_command_queue queue, cl_event* event) {
  check_opencl(clEnqueueCopyBuffer(queue, copy.from.mem, copy.to.mem, copy.from.offset_bytes,
                                   copy.to.offset_bytes, copy.dst.bytes(), 0, nullptr, event),
               "batch: clEnqueueCopyBuffer");
}

void issue(const FillCommand& fill, cl_command_queue queue, cl_event* event) {
  check_opencl(enqueue_zeros(queue, fill.to.mem, fill.to.offset_bytes, fill.dst.bytes(), event),
               "batch: clEnqueueFillBuffer");
}

void issue(const UploadCommand& upload, cl_command_queue queue, cl_event* event) {
  check_opencl(clEnqueueWriteBuffer(queue, upload.to.mem, CL_FALSE, upload.to.offset_bytes,
                                    upload.src.size(), upload.src.data(), 0, nullptr, event),
               "batch: clEnqueueWriteBuffer");
}

void issue(const CallCommand& call, cl_command_queue queue, cl_event* event) {
  call.function(queue, call.regions);
  enqueue_marker(queue, event);
}

void issue(const MarkCommand&, cl_command_queue queue, cl_event* event) {
  enqueue_marker(queue, event);
}

}  // namespace

std::vector<Tensor> tensors_of(const Command& command) {
  return std::visit(Overloaded{[](const KernelCommand& kernel) {
                                 std::vector<Tensor> tensors = kernel.launch.uses;
                                 for (const Argument& argument : kernel.arguments) {
                                   const auto* tensor = std::get_if<Tensor>(&argument);
                                   if (tensor != nullptr && !tensor->empty())
                                     tensors.push_back(*tensor);
                                 }
                                 return tensors;
                               },
                               [](const CopyCommand& copy) {
                                 return std::vector{copy.dst, copy.src};
                               },
                               [](const FillCommand& fill) { return std::vector{fill.dst}; },
                               [](const UploadCommand& upload) { return std::vector{upload.dst}; },
                               [](const CallCommand& call) { return call.uses; },
                               [](const MarkCommand&) { return std::vector<Tensor>(); }},
                    command);
}

void bind(Command& command, Context& context) {
  std::visit(Overloaded{[&](KernelCommand& kernel) { bind_kernel(kernel, context); },
                        [](CopyCommand& copy) {
                          copy.to = region_of(copy.dst);
                          copy.from = region_of(copy.src);
                        },
                        [](CallCommand& call) {
                          call.regions.clear();  // a failed seal may have left some
                          for (const Tensor& t : call.uses) call.regions.push_back(region_of(t));
                        },
                        [&](FillCommand& fill) {
                          fill.to = fillable_region_of(fill.dst, context.device());
                        },
                        [](MarkCommand&) {}, [](auto& other) { other.to = region_of(other.dst); }},
             command);
}

void enqueue(const Command& command, cl_command_queue queue, cl_event* event) {
  // Nearly all commands are kernels, and a tiny kernel takes about a microsecond on the device;
  // dispatch through std::visit added about 1 % of that.
  if (const auto* kernel = std::get_if<KernelCommand>(&command))
    return issue(*kernel, queue, event);
  std::visit([&](const auto& other) { issue(other, queue, event); }, command);
}

void fetch_ahead(const Command& command) noexcept {
  const auto* kernel = std::get_if<KernelCommand>(&command);
  if (kernel == nullptr) return;
  const auto* object = reinterpret_cast<const char*>(kernel->kernel.get());
  for (int line = 0; line < 4; ++line) __builtin_prefetch(object + 64 * line, /*rw=*/1);
}

std::string_view label_of(const Command& command) {
  using Text = std::string_view;
  return std::visit(Overloaded{[](const KernelCommand& kernel) -> Text {
                                 const Launch& launch = kernel.launch;
                                 return launch.label.empty() ? launch.kernel.function
                                                             : launch.label;
                               },
                               [](const CopyCommand&) -> Text { return "copy"; },
                               [](const FillCommand&) -> Text { return "fill"; },
                               [](const UploadCommand&) -> Text { return "upload"; },
                               [](const CallCommand& call) -> Text { return call.label; },
                               [](const MarkCommand& mark) -> Text { return mark.name; }},
                    command);
}

// Shapes of the first tensors, outputs first by convention. Types other than f32 are shown.
std::string shape_of(const Command& command) {
  if (std::holds_alternative<CallCommand>(command)) return {};
  const std::size_t told = std::holds_alternative<KernelCommand>(command) ? 3 : 1;
  std::string text;
  for (const Tensor& tensor : tensors_of(command) | std::views::take(told)) {
    const std::string_view type = tensor.type() == DType::f32 ? "" : name_of(tensor.type());
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", type, tensor.shape().text());
  }
  return text;
}

Cost cost_of(const Command& command) {
  const auto bytes = [](const Tensor& tensor) { return static_cast<double>(tensor.bytes()); };
  return std::visit(Overloaded{[](const KernelCommand& kernel) { return kernel.launch.cost; },
                               [&](const CopyCommand& copy) {
                                 return Cost{0, 2 * bytes(copy.dst)};
                               },
                               [](const CallCommand&) { return Cost{}; },
                               [](const MarkCommand&) { return Cost{}; },
                               [&](const auto& other) {
                                 return Cost{0, bytes(other.dst)};
                               }},
                    command);
}

void abandon(Command& command) noexcept {
  if (auto* kernel = std::get_if<KernelCommand>(&command)) (void)kernel->kernel.release();
}

}  // namespace clora
