// Transfer: copies between host memory and the device of one queue.
//
// Small transfers are direct. Large ones go in chunks of a few MiB through two pinned staging
// buffers, mapped once: one chunk is filled or emptied while the other is transferred. A CPU
// device's memory is filled in place. Owned by a Context and destroyed with it.
// Threads: one at a time. Every call runs after all commands enqueued before it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "clora/runtime/commands/fence.hpp"
#include "clora/runtime/device/device_health.hpp"
#include "clora/runtime/memory/tensor.hpp"
#include "clora/runtime/profiling/profiler.hpp"

namespace clora {

class Transfer {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{4} << 20U;

  // Pool and profiler must outlive this; profiler null: nothing is profiled. Context, queue and
  // device are the Context's. dry_run: nothing is transferred (ContextConfig::dry_run).
  Transfer(cl_context context, cl_command_queue queue, const Device& device, BufferPool& pool,
           std::shared_ptr<DeviceHealth> health, Profiler* profiler = nullptr,
           bool dry_run = false);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Copies the full tensor from or to host memory; waits. REQUIRES: equal bytes, the tensor has
  // memory.
  // Errors: device; device_lost, before anything is enqueued if the Context is already lost.
  void write(const Tensor& dst, std::span<const std::byte> bytes);
  void read(const Tensor& src, std::span<std::byte> bytes);

  // The same without waiting: `bytes` must stay valid until the fence has passed.
  Fence write_async(const Tensor& dst, std::span<const std::byte> bytes);
  Fence read_async(const Tensor& src, std::span<std::byte> bytes);

  // Fills bytes [offset_bytes, offset_bytes + chunk.size()) of a tensor's contents. The initial
  // contents of `chunk` are undefined. May throw: the tensor's contents are then undefined.
  using Pack = std::function<void(std::span<std::byte> chunk, std::size_t offset_bytes)>;
  // dst = the output of `pack`, which is called for one chunk after another; waits. Each chunk is a
  // multiple of grain_bytes (a row, a block of a quantised type) and at most kChunkBytes, or one
  // grain.
  // REQUIRES: dst.bytes() is a multiple of grain_bytes. Errors: device; exceptions from `pack`.
  void stream(const Tensor& dst, std::size_t grain_bytes, const Pack& pack);

  // Whether kernels can read `bytes` in place: the device is a CPU, and `bytes` are large enough to
  // be worth it and aligned for the scalars of `type`.
  bool can_wrap(std::span<const std::byte> bytes, DType type) const noexcept;
  // Returns `bytes` as a read-only tensor without a copy; `owner` lives until the device is done.
  // Reads every page once, so a slow or failing disk is noticed here. Returns an empty tensor if
  // can_wrap() is false or the driver refuses this memory; the caller must then copy.
  // REQUIRES: bytes.size() matches shape and type.
  // Errors: out_of_memory, if the driver has no memory left for itself; device_lost; device.
  Tensor wrap(std::span<const std::byte> bytes, Shape shape, DType type,
              std::shared_ptr<const void> owner);

  // Makes memory resident that the driver has only reserved. Its contents are zero afterwards (on a
  // GPU only the first 4 GiB), unless this Buffer's block was committed before. Waits. On failure
  // it frees cached memory and tries once more. Errors: out_of_memory, as BufferPool::allocate.
  void commit(const Buffer& buffer, MemoryTag tag);

  std::size_t staging_bytes() const noexcept;
  // Frees the staging buffers; the next large transfer creates them again.
  void trim() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace clora
