#include "runtime/commands/commands.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include "runtime/device/device_addresses.hpp"
#include "runtime/fail.hpp"
#include "runtime/programs/program.hpp"

namespace clora {
namespace {

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
    // NOLINTNEXTLINE(performance-no-int-to-ptr): addresses of the device are numbers on the host
    void* const begin = reinterpret_cast<void*>(*address + region.offset_bytes);
    return clSetKernelArgSVMPointer(kernel, n, begin);
  }
  return set_memory(kernel, n,
                    buffer.part(region.offset_bytes - buffer.offset_bytes(),
                                std::max<std::size_t>(tensor.bytes(), 1)));
}

// Sets the n-th argument of `kernel`, which belongs to `context`.
struct ArgumentSetter {
  cl_kernel kernel;
  cl_uint n;
  Context& context;

  cl_int operator()(const Tensor& tensor) const { return set_tensor(kernel, n, tensor, context); }
  cl_int operator()(const LocalMemory& local) const {
    return clSetKernelArg(kernel, n, local.bytes, nullptr);
  }
  cl_int operator()(const ValueBytes& value) const {
    return clSetKernelArg(kernel, n, value.bytes.size(), value.bytes.data());
  }
  cl_int operator()(auto value) const { return clSetKernelArg(kernel, n, sizeof value, &value); }
};

void bind_to_memory(KernelCommand& command, Context& context) {
  const Kernel& kernel = command.launch.kernel;
  cl_int status = CL_SUCCESS;
  command.kernel.reset(clCreateKernel(kernel.program->handle(), kernel.function.c_str(), &status));
  check_opencl(status, fmt::format("batch: clCreateKernel({})", kernel.function));
  for (std::size_t i = 0; i < command.arguments.size(); ++i) {
    const ArgumentSetter set{command.kernel.get(), static_cast<cl_uint>(i), context};
    status = std::visit(set, command.arguments[i]);
    check_opencl(status, fmt::format("batch: argument {} of kernel {}", i, kernel.function));
  }
}

void bind_to_memory(CopyCommand& copy, Context&) {
  copy.to = region_of(copy.dst);
  copy.from = region_of(copy.src);
}

void bind_to_memory(FillCommand& fill, Context& context) {
  fill.to = fillable_region_of(fill.dst, context.device());
}

void bind_to_memory(UploadCommand& upload, Context&) { upload.to = region_of(upload.dst); }

void bind_to_memory(CallCommand& call, Context&) {
  call.regions.clear();  // a failed seal may have left some
  for (const Tensor& tensor : call.uses) call.regions.push_back(region_of(tensor));
}

void bind_to_memory(MarkCommand&, Context&) {}

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

std::vector<Tensor> tensors_used(const KernelCommand& kernel) {
  std::vector<Tensor> tensors = kernel.launch.uses;
  for (const Argument& argument : kernel.arguments) {
    const auto* tensor = std::get_if<Tensor>(&argument);
    if (tensor != nullptr && !tensor->empty()) tensors.push_back(*tensor);
  }
  return tensors;
}

std::vector<Tensor> tensors_used(const CopyCommand& copy) { return {copy.dst, copy.src}; }
std::vector<Tensor> tensors_used(const FillCommand& fill) { return {fill.dst}; }
std::vector<Tensor> tensors_used(const UploadCommand& upload) { return {upload.dst}; }
std::vector<Tensor> tensors_used(const CallCommand& call) { return call.uses; }
std::vector<Tensor> tensors_used(const MarkCommand&) { return {}; }

std::string_view label_shown(const KernelCommand& kernel) {
  const Launch& launch = kernel.launch;
  return launch.label.empty() ? launch.kernel.function : launch.label;
}

std::string_view label_shown(const CopyCommand&) { return "copy"; }
std::string_view label_shown(const FillCommand&) { return "fill"; }
std::string_view label_shown(const UploadCommand&) { return "upload"; }
std::string_view label_shown(const CallCommand& call) { return call.label; }
std::string_view label_shown(const MarkCommand& mark) { return mark.name; }

Cost transfer_cost(const Tensor& tensor, int passes) {
  return {.flops = 0, .bytes = passes * static_cast<double>(tensor.bytes())};
}

Cost cost_estimated(const KernelCommand& kernel) { return kernel.launch.cost; }
Cost cost_estimated(const CopyCommand& copy) { return transfer_cost(copy.dst, 2); }
Cost cost_estimated(const FillCommand& fill) { return transfer_cost(fill.dst, 1); }
Cost cost_estimated(const UploadCommand& upload) { return transfer_cost(upload.dst, 1); }
Cost cost_estimated(const CallCommand&) { return {}; }
Cost cost_estimated(const MarkCommand&) { return {}; }

struct ArgumentText {
  std::string operator()(const Tensor& tensor) const {
    return fmt::format("{}{}", name_of(tensor.type()), tensor.shape().text());
  }
  std::string operator()(const LocalMemory& local) const {
    return fmt::format("local {}", local.bytes);
  }
  std::string operator()(const ValueBytes& value) const {
    std::string text = "0x";
    for (const std::byte byte : value.bytes) {
      text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
    }
    return text;
  }
  std::string operator()(auto number) const { return fmt::format("{}", number); }
};

}  // namespace

std::vector<Tensor> tensors_of(const Command& command) {
  return std::visit([](const auto& one) { return tensors_used(one); }, command);
}

void bind(Command& command, Context& context) {
  std::visit([&context](auto& one) { bind_to_memory(one, context); }, command);
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
  for (std::size_t line = 0; line < 4; ++line) __builtin_prefetch(&object[64 * line], /*rw=*/1);
}

std::string_view label_of(const Command& command) {
  return std::visit([](const auto& one) { return label_shown(one); }, command);
}

// Shapes of the first tensors, outputs first by convention. Types other than f32 are shown.
std::string shape_of(const Command& command) {
  if (std::holds_alternative<CallCommand>(command)) return {};
  const std::size_t count = std::holds_alternative<KernelCommand>(command) ? 3 : 1;
  std::string text;
  for (const Tensor& tensor : tensors_of(command) | std::views::take(count)) {
    const std::string_view type = tensor.type() == DType::f32 ? "" : name_of(tensor.type());
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", type, tensor.shape().text());
  }
  return text;
}

std::string launch_text(const KernelCommand& command, Context& context) {
  const auto& [kernel, grid, cost, label, uses] = command.launch;
  const auto source = context.programs().source_of(kernel);
  std::string text = fmt::format("{} {}{} [{}] by [{}]:", source ? source->file : "",
                                 kernel.function, source ? ' ' + source->options : "",
                                 fmt::join(grid.global, ", "), fmt::join(grid.local, ", "));
  for (const Argument& argument : command.arguments)
    text += ' ' + std::visit(ArgumentText{}, argument);
  return text;
}

Cost cost_of(const Command& command) {
  return std::visit([](const auto& one) { return cost_estimated(one); }, command);
}

void abandon(Command& command) noexcept {
  if (auto* kernel = std::get_if<KernelCommand>(&command)) (void)kernel->kernel.release();
}

}  // namespace clora
