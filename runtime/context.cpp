#include "runtime/context.hpp"

#include <array>
#include <cstdlib>

#include "runtime/opencl.hpp"

namespace clora {
namespace {

constexpr std::array<std::string_view, 3> kVariantNames{"automatic", "portable", "cpu"};

OwnedContext make_context(cl_device_id device) {
  cl_int status = CL_SUCCESS;
  OwnedContext context(clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status));
  check_opencl(status, "clCreateContext");
  return context;
}

OwnedQueue make_queue(cl_context context, cl_device_id device, bool profile) {
  const std::array<cl_queue_properties, 3> profiling{CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE,
                                                     0};
  cl_int status = CL_SUCCESS;
  OwnedQueue queue(clCreateCommandQueueWithProperties(
      context, device, profile ? profiling.data() : nullptr, &status));
  check_opencl(status, "clCreateCommandQueueWithProperties");
  return queue;
}

Variant resolve(Variant wanted, const Device& device) {
  if (wanted != Variant::automatic) return wanted;
  return device.kind == DeviceKind::cpu ? Variant::cpu : Variant::portable;
}

void require_transfer(const Tensor& tensor, std::size_t bytes) {
  require(!tensor.empty() && tensor.storage()->mem != nullptr,
          "context: a transfer needs a tensor with memory, got {}",
          tensor.empty() ? "nothing" : "an unplanned temporary");
  require(tensor.bytes() == bytes,
          "context: a transfer of {} needs {} bytes of host memory, got {}", tensor.text(),
          tensor.bytes(), bytes);
}

std::size_t device_offset(const Tensor& tensor) {
  return tensor.storage()->origin + tensor.offset_bytes();
}

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string_view name_of(Variant variant) {
  return kVariantNames.at(static_cast<std::size_t>(variant));
}

Variant variant_of(std::string_view name) {
  for (std::size_t i = 0; i < kVariantNames.size(); ++i) {
    if (kVariantNames[i] == name) return static_cast<Variant>(i);
  }
  fail(ErrorCode::invalid_argument, "variant: '{}' is none of automatic, portable, cpu", name);
}

std::filesystem::path default_cache_folder() {
  if (const std::string folder = from_environment("CLORA_CACHE_DIR"); !folder.empty()) {
    return folder;
  }
  const std::filesystem::path user = from_environment("XDG_CACHE_HOME");
  if (user.is_absolute()) return user / "clora";  // the specification ignores relative ones
  const std::filesystem::path home = from_environment("HOME");
  return home.empty() ? home : home / ".cache" / "clora";
}

ContextConfig config_from_environment() {
  ContextConfig config;
  config.device = from_environment("CLORA_DEVICE");
  config.kernel_folder = from_environment("CLORA_KERNEL_DIR");
  config.self_test = from_environment("CLORA_SELF_TEST") != "0";
  const std::string variant = from_environment("CLORA_VARIANT");
  if (!variant.empty()) config.variant = variant_of(variant);
  return config;
}

struct Context::State {
  explicit State(const ContextConfig& c)
      : config(c),
        device(select_device(config.device)),
        context(make_context(device.id)),
        queue(make_queue(context.get(), device.id, config.profile)),
        pool(context.get(), device, config.memory_limit_bytes),
        programs(context.get(), device, config.kernel_folder),
        variant(resolve(config.variant, device)),
        health(std::make_shared<DeviceHealth>(device.name, config.stuck_after_seconds)) {}

  ContextConfig config;
  Device device;
  OwnedContext context;
  OwnedQueue queue;
  BufferPool pool;
  ProgramCache programs;
  Profiler profiler;
  Variant variant;
  std::shared_ptr<DeviceHealth> health;
};

Context::Context(const ContextConfig& config) : state_(std::make_unique<State>(config)) {}

Context::~Context() {
  if (state_ != nullptr) clFinish(state_->queue.get());
}

const Device& Context::device() const noexcept { return state_->device; }
Variant Context::variant() const noexcept { return state_->variant; }
const Hooks& Context::hooks() const noexcept { return state_->config.hooks; }
const ContextConfig& Context::config() const noexcept { return state_->config; }
const std::shared_ptr<DeviceHealth>& Context::health() const noexcept { return state_->health; }
ProgramCache& Context::programs() noexcept { return state_->programs; }
BufferPool& Context::pool() noexcept { return state_->pool; }
Profiler& Context::profiler() noexcept { return state_->profiler; }
bool Context::profiling() const noexcept { return state_->config.profile; }
cl_context Context::opencl_context() const noexcept { return state_->context.get(); }
cl_command_queue Context::opencl_queue() const noexcept { return state_->queue.get(); }

Tensor Context::allocate(Shape shape, DType type, MemoryTag tag) {
  auto storage = std::make_shared<Storage>();
  storage->bytes = bytes_of(type, static_cast<std::size_t>(shape.elements()));
  auto buffer = std::make_shared<const Buffer>(state_->pool.allocate(storage->bytes, tag));
  storage->mem = buffer->handle();
  storage->buffer = std::move(buffer);
  return Tensor(std::move(storage), shape, type);
}

void Context::write(const Tensor& tensor, std::span<const std::byte> bytes) {
  write_async(tensor, bytes).wait();
}

void Context::read(const Tensor& tensor, std::span<std::byte> bytes) {
  read_async(tensor, bytes).wait();
}

Fence Context::write_async(const Tensor& tensor, std::span<const std::byte> bytes) {
  require_transfer(tensor, bytes.size());
  if (bytes.empty()) return {};
  cl_event event = nullptr;
  check_opencl(
      clEnqueueWriteBuffer(state_->queue.get(), tensor.storage()->mem, CL_FALSE,
                           device_offset(tensor), bytes.size(), bytes.data(), 0, nullptr, &event),
      "context: clEnqueueWriteBuffer");
  return Fence(event);
}

Fence Context::read_async(const Tensor& tensor, std::span<std::byte> bytes) {
  require_transfer(tensor, bytes.size());
  if (bytes.empty()) return {};
  cl_event event = nullptr;
  check_opencl(
      clEnqueueReadBuffer(state_->queue.get(), tensor.storage()->mem, CL_FALSE,
                          device_offset(tensor), bytes.size(), bytes.data(), 0, nullptr, &event),
      "context: clEnqueueReadBuffer");
  return Fence(event);
}

Kernel Context::kernel(std::string_view file, std::string_view function, const Defines& defines) {
  return state_->programs.kernel(file, function, defines);
}

void Context::wait_for(std::span<const cl_event> events) {
  if (events.empty()) return;
  check_opencl(
      clEnqueueBarrierWithWaitList(state_->queue.get(), static_cast<cl_uint>(events.size()),
                                   events.data(), nullptr),
      "context: clEnqueueBarrierWithWaitList");
}

void Context::flush() { check_opencl(clFlush(state_->queue.get()), "context: clFlush"); }
void Context::finish() { check_opencl(clFinish(state_->queue.get()), "context: clFinish"); }

}  // namespace clora
