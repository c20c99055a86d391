// Transfer: host memory to and from one queue's device.
//
// Small transfers are plain ones. Large ones go in chunks of some MiB through two pinned staging
// buffers, mapped once, so that one chunk is filled or emptied while the other is on its way; a
// CPU device's memory is filled where it lies. Owned by a Context, and dies with it.
// Threads: one at a time. Every call comes after all commands enqueued before it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "runtime/device_health.hpp"
#include "runtime/fence.hpp"
#include "runtime/profiler.hpp"
#include "runtime/tensor.hpp"

namespace clora {

class Transfer {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{4} << 20U;

  // Pool and profiler must outlive its use; profiler null: nothing is profiled. Context, queue and
  // device are the Context's.
  Transfer(cl_context context, cl_command_queue queue, const Device& device, BufferPool& pool,
           std::shared_ptr<DeviceHealth> health, Profiler* profiler = nullptr);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // The whole tensor from or to host memory; waits. REQUIRES: equal bytes, the tensor has memory.
  // Errors: device; device_lost, before anything is enqueued, where the Context is lost already.
  void write(const Tensor& dst, std::span<const std::byte> bytes);
  void read(const Tensor& src, std::span<std::byte> bytes);

  // The same without waiting: `bytes` must stay valid until the fence has passed.
  Fence write_async(const Tensor& dst, std::span<const std::byte> bytes);
  Fence read_async(const Tensor& src, std::span<std::byte> bytes);

  // Fills bytes [offset_bytes, offset_bytes + chunk.size()) of a tensor's contents. `chunk` holds
  // anything before. May throw: the tensor's contents are then undefined.
  using Pack = std::function<void(std::span<std::byte> chunk, std::size_t offset_bytes)>;
  // dst = what `pack` writes, called for one chunk after another; waits. Each chunk is a multiple
  // of grain_bytes (a row, a block of a quantised type) and at most kChunkBytes, or one grain.
  // REQUIRES: dst.bytes() a multiple of grain_bytes. Errors: device; what `pack` throws.
  void stream(const Tensor& dst, std::size_t grain_bytes, const Pack& pack);

  // Whether kernels can read `bytes` where they lie: a CPU device, large enough to be worth it, and
  // aligned for the scalars of `type`.
  bool can_wrap(std::span<const std::byte> bytes, DType type) const noexcept;
  // `bytes` as a tensor without a copy, for reading only; `owner` lives until the device is done.
  // Every page is read once, so that a slow or failing disk shows here. Empty where can_wrap() says
  // no or the driver refuses this memory: copy then.
  // REQUIRES: bytes.size() is what shape and type need.
  // Errors: out_of_memory, where the driver has none left for itself; device_lost; device.
  Tensor wrap(std::span<const std::byte> bytes, Shape shape, DType type,
              std::shared_ptr<const void> owner);

  // Forces memory that the driver has only promised to be there; its contents are zero afterwards
  // (of a GPU's the first 4 GiB), unless this Buffer's block was forced before. Waits. On failure
  // cached memory is freed and it is tried once more. Errors: out_of_memory, as
  // BufferPool::allocate.
  void commit(const Buffer& buffer, MemoryTag tag);

  std::size_t staging_bytes() const noexcept;
  // Frees the staging buffers; the next large transfer makes them anew.
  void trim() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace clora
