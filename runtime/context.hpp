// Context: one device with its in-order queue, buffer pool, program cache and profiler.
//
// Owns its OpenCL context and queue, or shares a caller's (AdoptedQueue). Tensors keep the memory
// they view alive and may outlive the Context. Contexts share no state.
// Threads: a Context is used by one thread at a time; different Contexts may be used concurrently.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/runtime/commands/capture_request.hpp"
#include "clora/runtime/commands/fence.hpp"
#include "clora/runtime/device/capabilities.hpp"
#include "clora/runtime/device/device.hpp"
#include "clora/runtime/device/device_health.hpp"
#include "clora/runtime/device/variant.hpp"
#include "clora/runtime/hooks.hpp"
#include "clora/runtime/memory/buffer_pool.hpp"
#include "clora/runtime/memory/tensor.hpp"
#include "clora/runtime/memory/transfer.hpp"
#include "clora/runtime/profiling/profiler.hpp"
#include "clora/runtime/profiling/trace.hpp"
#include "clora/runtime/programs/program_cache.hpp"

namespace clora {

// The folder for built programs and measured peaks: CLORA_CACHE_DIR, else XDG_CACHE_HOME/clora,
// else ~/.cache/clora; empty if the environment has none of them.
std::filesystem::path default_cache_folder();

struct ContextConfig {
  std::string device;                  // see select_device(); ignored for an adopted queue
  std::size_t memory_limit_bytes = 0;  // 0: memory_limit_share of device memory
  double memory_limit_share = 1;       // in (0, 1]
  // 0: that of the device, Device::max_allocation_bytes; else at most this, as on a smaller device.
  std::size_t max_allocation_bytes = 0;
  bool sub_allocate = true;       // false: a separate cl_mem per tensor, also temporaries
  std::optional<bool> addresses;  // as kernel arguments; not set: on NVIDIA GPUs
  bool wrap_files = true;         // CPU devices read weights from the file mapping
  // Of the memory that is free when a model's weights are loaded, the part that copies of them in
  // bf16 may take on GPUs with matrix units, in [0, 1]; 0: none.
  double weight_copy_share = 0.25;
  // Folders to read kernel files from instead of the embedded ones; the first that has a file is
  // used.
  std::vector<std::filesystem::path> kernel_folders;
  std::filesystem::path cache_folder = default_cache_folder();  // empty: nothing is stored on disk
  std::size_t cache_limit_bytes = std::size_t{256} << 20;       // of built programs in cache_folder
  std::shared_ptr<ProgramStore> program_store;                  // null: cache_folder/programs
  std::filesystem::path tuned_table;  // of ops/tuned/tuned.hpp; empty: cache_folder/tuned.json
  Variant variant = Variant::automatic;
  // Implementations that ops are forced to use, "gemm:portable,attention:flash", by the stems of
  // families; 'clora devices --verbose' lists them. Empty: the best that passed their self-tests.
  std::string implementations;
  Precision precision = Precision::f32;  // limits the choice of Variant::automatic
  // The type of activations that products read: f32, bf16 or f16; not set: bf16 if hands_on_bf16(),
  // else f32. f16 is for evaluation only: the Trainer refuses it, since it has no loss scaling.
  std::optional<DType> activations;
  // Plans and runs nothing: batches are recorded and their memory is planned as without it, and the
  // pool counts every allocation beyond its limit too, but no device memory is allocated, nothing
  // is copied, submitted or self-tested, and reads leave the host's memory unchanged. For the
  // memory of a run ahead of it (model/training/memory_plan.hpp).
  bool dry_run = false;
  bool self_test = true;             // of each kernel variant, before its first use
  bool profile = false;              // creates a profiling queue and enables the Profiler
  std::shared_ptr<Trace> trace;      // records the host's spans and, with profile, device commands
  double stuck_after_seconds = 300;  // lost after this time without progress; 0: never
  std::size_t max_commands_in_flight = 4096;  // beyond it, submit() waits for earlier commands
  double max_seconds_in_flight = 2;           // the same limit in estimated device time; 0: off
  std::optional<CaptureRequest> capture;      // one launch to write to a folder
  Hooks hooks;
};

// Reads the configuration from the environment: CLORA_DEVICE, CLORA_KERNEL_DIR, CLORA_VARIANT,
// CLORA_IMPL for implementations, CLORA_CACHE_DIR, CLORA_TUNED for tuned_table, CLORA_SELF_TEST=0
// to skip the self-tests, CLORA_POOL=exact to disable sub_allocate, CLORA_WRAP_FILES=0,
// CLORA_WEIGHT_COPIES=0 for a weight_copy_share of 0, CLORA_CAPTURE and CLORA_CAPTURE_DIR
// (runtime/commands/capture_request.hpp). Errors: invalid_argument, for an invalid value.
ContextConfig config_from_environment();

// A caller's device, context and in-order queue. The Context retains context and queue and releases
// them in its destructor; the caller keeps its own references. Tensors and fences that outlive the
// Context keep the cl_context alive, but never the queue. The caller may use the queue between
// calls to the Context, from the same thread; all commands run in the order in which they were
// enqueued.
struct AdoptedQueue {
  cl_context context = nullptr;
  cl_device_id device = nullptr;
  cl_command_queue queue = nullptr;
};

class Capture;          // runtime/commands/capture.hpp
class DeviceAddresses;  // runtime/device/device_addresses.hpp
class InFlightLedger;   // runtime/commands/in_flight.hpp

class Context {
 public:
  // Errors: no_device, device; unsupported for a variant that the device does not support;
  // invalid_argument for activations of another type.
  explicit Context(const ContextConfig& config = {});
  // Uses a caller's queue. Errors: invalid_argument (out-of-order queue; a queue of another context
  // or device; config.profile without CL_QUEUE_PROFILING_ENABLE), device.
  explicit Context(const AdoptedQueue& adopted, const ContextConfig& config = {});
  // Waits for all enqueued commands, unless the Context is lost. A stuck Context
  // (runtime/device/device_health.hpp) leaks its OpenCL objects and their memory.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Device& device() const noexcept;
  // The variant that caps the capabilities; never automatic. Describes runs; ops do not ask for it.
  Variant variant() const noexcept;
  Precision precision() const noexcept;  // ContextConfig::precision
  // What kernels may use: the device's capabilities, capped by the variant.
  const Capabilities& capabilities() const noexcept;
  // The type in which ops pass activations that products read: f32, bf16 or f16.
  DType activation_type() const noexcept;

  // A view of a caller's buffer or sub-buffer, starting at offset_bytes. mem is retained until the
  // last view of its root buffer's memory is gone, and so are the root, if mem is a sub-buffer, and
  // the sub-buffers that kernels needed. The caller may release its own reference at once. The
  // memory does not count against the pool's limit. Does not wait.
  // REQUIRES: mem is a buffer of this OpenCL context; offset_bytes (counted within the root buffer
  // if mem is a sub-buffer) is a multiple of the device's base alignment; the shape fits. Errors:
  // invalid_argument, device.
  Tensor adopt(cl_mem mem, Shape shape, DType type, std::size_t offset_bytes = 0);

  // Allocates memory with undefined contents. Errors: out_of_memory.
  Tensor allocate(Shape shape, DType type, MemoryTag tag);
  // Allocates memory and copies `values` into it. Waits for the device.
  template <class T>
  Tensor upload(Shape shape, DType type, std::span<const T> values, MemoryTag tag) {
    const Tensor tensor = allocate(shape, type, tag);
    write(tensor, std::as_bytes(values));
    return tensor;
  }

  // Copies the full tensor from or to host memory, after all commands enqueued before; waits.
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
  // Waits for all enqueued commands. Errors: device, device_lost.
  void finish();

  // Makes every command enqueued later wait for a foreign event, without waiting here.
  void wait_for(std::span<const cl_event> events);

  // Makes a tensor's memory resident, so that missing memory is detected now; the contents are
  // undefined afterwards. Waits. Errors: out_of_memory.
  void commit(const Tensor& tensor, MemoryTag tag);

  BufferPool& pool() noexcept;
  Transfer& transfers() noexcept;
  ProgramCache& programs() noexcept;
  const Hooks& hooks() const noexcept;
  const std::shared_ptr<DeviceHealth>& health() const noexcept;
  const ContextConfig& config() const noexcept;
  // The addresses of pool blocks, for kernel arguments.
  DeviceAddresses& addresses() noexcept;
  // The work that batches have in flight on the device, and its limit.
  InFlightLedger& in_flight() noexcept;
  Profiler& profiler() noexcept;
  bool profiling() const noexcept;

  // Null unless a launch is still to be captured.
  Capture* capture() const noexcept { return capture_; }

  // State of ops/ for this Context; empty at first, freed with the Context. What ops keep there,
  // such as tables that they have read, does not change what the Context is.
  std::shared_ptr<void>& ops_state() const noexcept;
  // For TraceSpan; null if ContextConfig::trace is null.
  Trace* trace() const noexcept;

  // For runtime/ and for callers that use OpenCL directly. Owned by the Context.
  cl_context opencl_context() const noexcept;
  cl_command_queue opencl_queue() const noexcept;

 private:
  void begin_capture();

  friend class Capture;  // resets capture_ after the launch
  struct State;
  std::unique_ptr<State> state_;
  Capture* capture_ = nullptr;  // read by every submit
};

}  // namespace clora
