// Context: one device with its in-order queue, buffer pool, program cache and profiler.
//
// Owns its OpenCL context and queue. Tensors keep the memory they view alive and may outlive the
// Context. Threads: a Context is used by one thread at a time; different Contexts freely.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/buffer_pool.hpp"
#include "runtime/device.hpp"
#include "runtime/fence.hpp"
#include "runtime/profiler.hpp"
#include "runtime/program_cache.hpp"
#include "runtime/tensor.hpp"

namespace clora {

// Which kind of kernel an op takes where it has several. automatic: the best for the device.
enum class Variant { automatic, portable, cpu };
std::string_view name_of(Variant variant);
// Errors: invalid_argument, with the names there are.
Variant variant_of(std::string_view name);

struct ContextConfig {
  std::string device;                   // see select_device()
  std::size_t memory_limit_bytes = 0;   // 0: what the device reports
  std::filesystem::path kernel_folder;  // read kernel files from here instead of the embedded ones
  Variant variant = Variant::automatic;
  bool profile = false;
};

// The configuration that the environment asks for: CLORA_DEVICE, CLORA_KERNEL_DIR, CLORA_VARIANT.
ContextConfig config_from_environment();

class Context {
 public:
  // Errors: no_device, device.
  explicit Context(const ContextConfig& config = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Device& device() const noexcept;
  // The variant that ops take: cpu or portable, never automatic.
  Variant variant() const noexcept;

  // Memory with undefined contents. Errors: out_of_memory.
  Tensor allocate(Shape shape, DType type, MemoryTag tag);
  // Memory that holds a copy of `values`. Waits for the device.
  template <class T>
  Tensor upload(Shape shape, DType type, std::span<const T> values, MemoryTag tag) {
    const Tensor tensor = allocate(shape, type, tag);
    write(tensor, std::as_bytes(values));
    return tensor;
  }

  // Copies the whole tensor from or to host memory, after everything enqueued before; waits.
  // REQUIRES: bytes.size() == tensor.bytes(), the tensor is not an unplanned temporary.
  void write(const Tensor& tensor, std::span<const std::byte> bytes);
  void read(const Tensor& tensor, std::span<std::byte> bytes);
  template <class T>
  std::vector<T> read(const Tensor& tensor) {
    std::vector<T> values(tensor.bytes() / sizeof(T));
    read(tensor, std::as_writable_bytes(std::span(values)));
    return values;
  }
  // The same without waiting: `bytes` must stay valid until the fence has passed.
  Fence write_async(const Tensor& tensor, std::span<const std::byte> bytes);
  Fence read_async(const Tensor& tensor, std::span<std::byte> bytes);

  Kernel kernel(std::string_view file, std::string_view function, const Defines& defines = {});

  void flush();
  // Waits for everything enqueued. Errors: device.
  void finish();

  BufferPool& pool() noexcept;
  Profiler& profiler() noexcept;
  bool profiling() const noexcept;

  // For runtime/ and for callers that speak OpenCL themselves. Owned by the Context.
  cl_context opencl_context() const noexcept;
  cl_command_queue opencl_queue() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace clora
