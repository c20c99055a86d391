// Context: one device with its in-order queue, buffer pool, program cache and profiler.
//
// Owns its OpenCL context and queue, or shares a caller's (AdoptedQueue). Tensors keep the memory
// they view alive and may outlive the Context. No state is shared between Contexts.
// Threads: a Context is used by one thread at a time; different Contexts freely.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/buffer_pool.hpp"
#include "runtime/capture_request.hpp"
#include "runtime/device.hpp"
#include "runtime/device_health.hpp"
#include "runtime/fence.hpp"
#include "runtime/hooks.hpp"
#include "runtime/profiler.hpp"
#include "runtime/program_cache.hpp"
#include "runtime/tensor.hpp"
#include "runtime/trace.hpp"
#include "runtime/transfer.hpp"
#include "runtime/variant.hpp"

namespace clora {

// Where built programs and measured peaks are kept: CLORA_CACHE_DIR, else XDG_CACHE_HOME/clora,
// else ~/.cache/clora; empty where the environment has none of them.
std::filesystem::path default_cache_folder();

struct ContextConfig {
  std::string device;                  // see select_device(); ignored for an adopted queue
  std::size_t memory_limit_bytes = 0;  // 0: memory_limit_share of what the device reports
  double memory_limit_share = 1;       // in (0, 1]
  bool sub_allocate = true;            // false: a cl_mem for each, temporaries too
  std::optional<bool> addresses;       // for kernels' arguments; not given: on NVIDIA GPUs
  bool wrap_files = true;              // CPU devices read weights where the file is mapped
  // Read kernel files from here instead of the embedded ones, the first that has a file.
  std::vector<std::filesystem::path> kernel_folders;
  std::filesystem::path cache_folder = default_cache_folder();  // empty: nothing is kept on disk
  std::size_t cache_limit_bytes = std::size_t{256} << 20;       // of built programs there
  std::shared_ptr<ProgramStore> program_store;                  // null: cache_folder/programs
  std::filesystem::path tuned_table;  // of ops/tuned.hpp; empty: cache_folder/tuned.json
  Variant variant = Variant::automatic;
  Precision precision = Precision::f32;  // of what Variant::automatic chooses
  std::optional<DType> activations;      // f32 or bf16; not given: as hands_on_bf16() says
  bool self_test = true;                 // of each kernel variant, before its first use
  bool profile = false;                  // queue with profiling, Profiler on
  std::shared_ptr<Trace> trace;      // takes the host's spans and, with profile, device commands
  double stuck_after_seconds = 300;  // no progress for so long: the Context is lost; 0: never
  std::size_t max_commands_in_flight = 4096;  // submit() waits for earlier ones beyond it
  double max_seconds_in_flight = 2;           // the same by estimated device time; 0: off
  std::optional<CaptureRequest> capture;      // one launch to be written as a folder
  Hooks hooks;
};

// The configuration that the environment asks for: CLORA_DEVICE, CLORA_KERNEL_DIR, CLORA_VARIANT,
// CLORA_CACHE_DIR, CLORA_TUNED for tuned_table, CLORA_SELF_TEST=0 to leave the self-tests out,
// CLORA_POOL=exact for sub_allocate off, CLORA_WRAP_FILES=0, CLORA_CAPTURE and CLORA_CAPTURE_DIR
// (runtime/capture_request.hpp). Errors: invalid_argument, for a value that is none.
ContextConfig config_from_environment();

// A caller's device, context and in-order queue. The Context retains context and queue and releases
// them when it goes; the caller keeps its own references. Where tensors or fences outlive the
// Context, their memory keeps the cl_context, never the queue. The caller may use the queue between
// our calls, from the same thread; its commands and ours run in the order of enqueueing.
struct AdoptedQueue {
  cl_context context = nullptr;
  cl_device_id device = nullptr;
  cl_command_queue queue = nullptr;
};

class Capture;          // runtime/capture.hpp
class DeviceAddresses;  // runtime/device_addresses.hpp
class InFlightLedger;   // runtime/in_flight.hpp

class Context {
 public:
  // Errors: no_device, device; unsupported for a variant that the device cannot do.
  explicit Context(const ContextConfig& config = {});
  // On a caller's queue. Errors: invalid_argument (out-of-order queue; a queue of another context
  // or device; config.profile without CL_QUEUE_PROFILING_ENABLE), device.
  explicit Context(const AdoptedQueue& adopted, const ContextConfig& config = {});
  // Waits for what is enqueued, unless the Context is lost. A stuck one (runtime/device_health.hpp)
  // leaves its OpenCL objects and their memory to the driver for ever.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Device& device() const noexcept;
  // The variant that ops take: never automatic.
  Variant variant() const noexcept;
  // The type in which activations go from op to op where products read them: f32 or bf16.
  DType activation_type() const noexcept;

  // A view of a caller's buffer or sub-buffer, from offset_bytes on. mem, and where it is a
  // sub-buffer its root too, is retained until the last view of the root's memory is gone, with
  // the sub-buffers of it that kernels needed; the caller may release its own reference at once.
  // It does not count against the pool's limit. Waits for nothing.
  // REQUIRES: mem a buffer of this OpenCL context, offset_bytes (counted within the root buffer,
  // where mem is itself a sub-buffer) a multiple of the device's base alignment, and space for the
  // shape. Errors: invalid_argument, device.
  Tensor adopt(cl_mem mem, Shape shape, DType type, std::size_t offset_bytes = 0);

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
    try {
      read(tensor, std::as_writable_bytes(std::span(values)));
    } catch (...) {  // a stuck device may still write to them
      if (health()->stuck()) (void)new std::vector<T>(std::move(values));
      throw;
    }
    return values;
  }
  // The same without waiting: `bytes` must stay valid until the fence has passed.
  Fence write_async(const Tensor& tensor, std::span<const std::byte> bytes);
  Fence read_async(const Tensor& tensor, std::span<std::byte> bytes);

  Kernel kernel(std::string_view file, std::string_view function, const Defines& defines = {});

  void flush();
  // Waits for everything enqueued. Errors: device, device_lost.
  void finish();

  // Makes every command enqueued later wait for a foreign event, without waiting here.
  void wait_for(std::span<const cl_event> events);

  // Forces a tensor's memory into being, so that what is missing is missed now; the contents are
  // undefined afterwards. Waits. Errors: out_of_memory.
  void commit(const Tensor& tensor, MemoryTag tag);

  BufferPool& pool() noexcept;
  Transfer& transfers() noexcept;
  ProgramCache& programs() noexcept;
  const Hooks& hooks() const noexcept;
  const std::shared_ptr<DeviceHealth>& health() const noexcept;
  const ContextConfig& config() const noexcept;
  // Of blocks of the pool, for kernels' arguments.
  DeviceAddresses& addresses() noexcept;
  // What batches have given the device and the limit on it.
  InFlightLedger& in_flight() noexcept;
  Profiler& profiler() noexcept;
  bool profiling() const noexcept;

  // Null unless a launch is still to be captured.
  Capture* capture() const noexcept { return capture_; }

  // Where ops/ keeps what it has learned about this Context; empty at first, freed with it.
  std::shared_ptr<void>& ops_state() noexcept;
  // For TraceSpan; null where ContextConfig::trace is.
  Trace* trace() const noexcept;

  // For runtime/ and for callers that speak OpenCL themselves. Owned by the Context.
  cl_context opencl_context() const noexcept;
  cl_command_queue opencl_queue() const noexcept;

 private:
  void begin_capture();

  friend class Capture;  // which ends with the launch
  struct State;
  std::unique_ptr<State> state_;
  Capture* capture_ = nullptr;  // looked at in every submit
};

}  // namespace clora
