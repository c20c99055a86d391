#include "clora/runtime/context.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/commands/capture.hpp"
#include "runtime/commands/in_flight.hpp"
#include "runtime/device/device_addresses.hpp"
#include "runtime/device/opencl.hpp"
#include "runtime/fail.hpp"
#include "runtime/memory/adopted_memory.hpp"

namespace clora {
namespace {

OwnedContext make_context(cl_device_id device) {
  cl_int status = CL_SUCCESS;
  OwnedContext context(clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status));
  check_opencl(status, "clCreateContext");
  return context;
}

// By the function of OpenCL 1.2, which devices of every version support.
OwnedQueue make_queue(cl_context context, cl_device_id device, bool profile) {
  const cl_command_queue_properties properties = profile ? CL_QUEUE_PROFILING_ENABLE : 0;
  cl_int status = CL_SUCCESS;
  OwnedQueue queue(clCreateCommandQueue(context, device, properties, &status));
  check_opencl(status, "clCreateCommandQueue");
  return queue;
}

template <class T>
T info_of(cl_command_queue queue, cl_command_queue_info what) {
  T value{};
  check_opencl(clGetCommandQueueInfo(queue, what, sizeof value, &value, nullptr),
               "context: clGetCommandQueueInfo");
  return value;
}

void require_adoptable(const AdoptedQueue& adopted, bool profile) {
  require(
      adopted.context != nullptr && adopted.device != nullptr && adopted.queue != nullptr,
      "context: an adopted queue needs a context, a device and a queue, got null for at least one");
  require(info_of<cl_context>(adopted.queue, CL_QUEUE_CONTEXT) == adopted.context,
          "context: the adopted queue must belong to the given context, got a queue of another "
          "context");
  require(
      info_of<cl_device_id>(adopted.queue, CL_QUEUE_DEVICE) == adopted.device,
      "context: the adopted queue must belong to the given device, got a queue of another device");
  const auto properties = info_of<cl_command_queue_properties>(adopted.queue, CL_QUEUE_PROPERTIES);
  require((properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0,
          "context: the adopted queue must be in-order, got an out-of-order queue; create it "
          "without CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE");
  require(!profile || (properties & CL_QUEUE_PROFILING_ENABLE) != 0,
          "context: to profile, the adopted queue must have CL_QUEUE_PROFILING_ENABLE; create it "
          "with that property or leave ContextConfig::profile off");
}

OwnedContext retained(cl_context context) {
  check_opencl(clRetainContext(context), "context: clRetainContext");
  return OwnedContext(context);
}

OwnedQueue retained(cl_command_queue queue) {
  check_opencl(clRetainCommandQueue(queue), "context: clRetainCommandQueue");
  return OwnedQueue(queue);
}

// The OpenCL objects of a Context: its own, or a caller's, retained.
struct Handles {
  Device device;
  OwnedContext context;
  OwnedQueue queue;
};

Handles own_handles(const ContextConfig& config) {
  Handles handles{.device = select_device(config.device), .context = {}, .queue = {}};
  handles.context = make_context(handles.device.id);
  handles.queue = make_queue(handles.context.get(), handles.device.id, config.profile);
  return handles;
}

Handles adopted_handles(const AdoptedQueue& adopted, const ContextConfig& config) {
  require_adoptable(adopted, config.profile);
  return {.device = describe_device(adopted.device),
          .context = retained(adopted.context),
          .queue = retained(adopted.queue)};
}

Device with_limits(Device device, const ContextConfig& config) {
  require(config.weight_copy_share >= 0 && config.weight_copy_share <= 1,
          "context: weight_copy_share must be in [0, 1], got {}", config.weight_copy_share);
  if (config.max_allocation_bytes != 0) {
    device.max_allocation_bytes =
        std::min<std::uint64_t>(device.max_allocation_bytes, config.max_allocation_bytes);
  }
  return device;
}

// A CPU device needs the cores itself, so its waits sleep. NVIDIA's driver calls back up to 10 ms
// late, so waits for other devices poll.
DeviceHealth::Waiting waiting_for(const Device& device) {
  return device.kind == DeviceKind::cpu ? DeviceHealth::Waiting::asleep
                                        : DeviceHealth::Waiting::looking;
}

// Addresses are used only with the driver on which they were tested with full models. Other drivers
// may accept an address without keeping its memory resident.
bool takes_addresses(const Device& device) {
  return device.kind == DeviceKind::gpu && has_nvidia_driver(device);
}

bool has_memory(const Tensor& tensor) {
  return !tensor.empty() && tensor.storage()->buffer != nullptr;
}

void require_transfer(const Tensor& tensor, std::size_t bytes) {
  require(has_memory(tensor), "context: a transfer needs a tensor with memory, got {}",
          tensor.empty() ? "nothing" : "an unplanned temporary");
  require(tensor.bytes() == bytes,
          "context: a transfer of {} needs {} bytes of host memory, got {}", tensor.text(),
          tensor.bytes(), bytes);
}

std::shared_ptr<ProgramStore> program_store_of(const ContextConfig& config) {
  if (config.program_store != nullptr || config.cache_folder.empty()) return config.program_store;
  return std::make_shared<DiskProgramStore>(config.cache_folder / "programs",
                                            config.cache_limit_bytes);
}

const ContextConfig& checked(const ContextConfig& config) {
  const DType type = config.activations.value_or(DType::f32);
  require(type == DType::f32 || type == DType::bf16 || type == DType::f16,
          "context: ContextConfig::activations must be f32, bf16 or f16, got {}", name_of(type));
  return config;
}

}  // namespace

struct Context::State {
  State(Handles handles, const ContextConfig& c)
      : config(c),
        device(with_limits(std::move(handles.device), config)),
        context(std::move(handles.context)),
        queue(std::move(handles.queue)),
        health(std::make_shared<DeviceHealth>(device.name, config.stuck_after_seconds,
                                              waiting_for(device))),
        pool(context.get(), device,
             {config.memory_limit_bytes, config.memory_limit_share, config.sub_allocate,
              config.dry_run, config.hooks, health}),
        transfers(context.get(), queue.get(), device, pool, health,
                  config.profile ? &profiler : nullptr, config.dry_run),
        adopted(context.get(), device.base_alignment_bytes),
        programs(context.get(), device,
                 {config.kernel_folders, program_store_of(config), config.hooks, health}),
        addresses(context.get(), queue.get(), device, programs, health,
                  config.sub_allocate && config.addresses.value_or(takes_addresses(device))),
        variant(resolve(config.variant, config.precision, device)),
        capabilities(capped(all_capabilities(device), variant)),
        in_flight(device, health, {config.max_commands_in_flight, config.max_seconds_in_flight}) {
    config.self_test = config.self_test && !config.dry_run;
    health->watch(queue.get());
    profiler.watch(health);
    if (config.profile && config.trace) profiler.trace_to(config.trace, device.name);
  }

  // For calls that use the queue: throws if the call was refused.
  void accept(cl_int status, std::string_view call) const {
    health->notice(status, call);
    check_opencl(status, call);
  }

  ContextConfig config;
  Device device;
  OwnedContext context;
  OwnedQueue queue;
  std::shared_ptr<DeviceHealth> health;
  BufferPool pool;
  Transfer transfers;
  AdoptedMemory adopted;
  ProgramCache programs;
  DeviceAddresses addresses;
  Profiler profiler;
  Variant variant;
  Capabilities capabilities;
  InFlightLedger in_flight;
  std::shared_ptr<void> ops;
  std::unique_ptr<Capture> capture;  // null: no capture was requested
};

Context::Context(const ContextConfig& config)
    : state_(std::make_unique<State>(own_handles(checked(config)), config)) {
  begin_capture();
}

Context::Context(const AdoptedQueue& adopted, const ContextConfig& config)
    : state_(std::make_unique<State>(adopted_handles(adopted, checked(config)), config)) {
  begin_capture();
}

void Context::begin_capture() {
  if (!state_->config.capture) return;
  state_->capture = std::make_unique<Capture>(*this, *state_->config.capture);
  capture_ = state_->capture.get();
}

Context::~Context() {
  if (state_ == nullptr) return;
  try {
    finish();
  } catch (...) {  // lost, now or before
  }
  if (capture_ != nullptr) capture_->give_up();
  state_->health->watch(nullptr);
  // A driver that is asked to release objects in use on a stuck device may block.
  if (state_->health->stuck()) (void)state_.release();
}

const Device& Context::device() const noexcept { return state_->device; }
Variant Context::variant() const noexcept { return state_->variant; }
const Capabilities& Context::capabilities() const noexcept { return state_->capabilities; }
Precision Context::precision() const noexcept { return state_->config.precision; }

DType Context::activation_type() const noexcept {
  return state_->config.activations.value_or(capabilities().hands_on_bf16() ? DType::bf16
                                                                            : DType::f32);
}
const Hooks& Context::hooks() const noexcept { return state_->config.hooks; }
const ContextConfig& Context::config() const noexcept { return state_->config; }
const std::shared_ptr<DeviceHealth>& Context::health() const noexcept { return state_->health; }
InFlightLedger& Context::in_flight() noexcept { return state_->in_flight; }
ProgramCache& Context::programs() noexcept { return state_->programs; }
DeviceAddresses& Context::addresses() noexcept { return state_->addresses; }
BufferPool& Context::pool() noexcept { return state_->pool; }
Transfer& Context::transfers() noexcept { return state_->transfers; }
Profiler& Context::profiler() noexcept { return state_->profiler; }
bool Context::profiling() const noexcept { return state_->config.profile; }
std::shared_ptr<void>& Context::ops_state() const noexcept { return state_->ops; }
Trace* Context::trace() const noexcept { return state_->config.trace.get(); }
cl_context Context::opencl_context() const noexcept { return state_->context.get(); }
cl_command_queue Context::opencl_queue() const noexcept { return state_->queue.get(); }

Tensor Context::adopt(cl_mem mem, Shape shape, DType type, std::size_t offset_bytes) {
  const std::size_t bytes = bytes_of(type, static_cast<std::size_t>(shape.elements()));
  return Tensor(state_->adopted.adopt(mem, offset_bytes, bytes), shape, type);
}

Tensor Context::allocate(Shape shape, DType type, MemoryTag tag) {
  state_->health->require_usable("context: allocate");
  auto storage = std::make_shared<Storage>();
  storage->bytes = bytes_of(type, static_cast<std::size_t>(shape.elements()));
  auto buffer = std::make_shared<const Buffer>(state_->pool.allocate(storage->bytes, tag));
  storage->mem = buffer->handle();
  storage->origin = buffer->offset_bytes();
  storage->buffer = std::move(buffer);
  return Tensor(std::move(storage), shape, type);
}

void Context::write(const Tensor& tensor, std::span<const std::byte> bytes) {
  const TraceSpan span(trace(), "write");
  require_transfer(tensor, bytes.size());
  state_->transfers.write(tensor, bytes);
}

void Context::read(const Tensor& tensor, std::span<std::byte> bytes) {
  const TraceSpan span(trace(), "read");
  require_transfer(tensor, bytes.size());
  state_->transfers.read(tensor, bytes);
}

void Context::commit(const Tensor& tensor, MemoryTag tag) {
  state_->transfers.commit(*tensor.storage()->buffer, tag);
}

Fence Context::write_async(const Tensor& tensor, std::span<const std::byte> bytes) {
  require_transfer(tensor, bytes.size());
  return state_->transfers.write_async(tensor, bytes);
}

Fence Context::read_async(const Tensor& tensor, std::span<std::byte> bytes) {
  require_transfer(tensor, bytes.size());
  return state_->transfers.read_async(tensor, bytes);
}

Kernel Context::kernel(std::string_view file, std::string_view function, const Defines& defines) {
  const TraceSpan span(trace(), "kernel", file);  // long if a program is built
  state_->health->require_usable("context: kernel");
  return state_->programs.kernel(file, function, defines);
}

void Context::wait_for(std::span<const cl_event> events) {
  state_->health->require_usable("context: wait_for");
  if (events.empty()) return;
  state_->accept(
      clEnqueueBarrierWithWaitList(state_->queue.get(), static_cast<cl_uint>(events.size()),
                                   events.data(), nullptr),
      "context: clEnqueueBarrierWithWaitList");
}

void Context::flush() {
  state_->health->require_usable("context: flush");
  state_->accept(clFlush(state_->queue.get()), "context: clFlush");
}

void Context::finish() {
  const TraceSpan span(trace(), "wait");
  state_->health->finish("context: finish");
  state_->in_flight.reclaim();
}

}  // namespace clora
