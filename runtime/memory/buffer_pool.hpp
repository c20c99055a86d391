// BufferPool: device memory with a limit, statistics by tag, and a cache of freed memory. A Buffer
// is a move-only handle that returns its memory to the pool.
//
// Small requests are pieces of a few large cl_mem ("slabs"): a Buffer starts at offset_bytes() of
// handle(). Each large request has its own cl_mem. docs/decisions/memory-pool.md says why.
// A Buffer may outlive the pool object that created it: both share the pool's state.
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "clora/runtime/device/device.hpp"
#include "clora/runtime/device/device_health.hpp"
#include "clora/runtime/device/opencl_handles.hpp"
#include "clora/runtime/hooks.hpp"

namespace clora {

enum class MemoryTag { weights, activations, adapters, cache, scratch };
inline constexpr std::size_t kMemoryTags = 5;
std::string_view name_of(MemoryTag tag);

struct MemoryStatistics {
  std::size_t in_use_bytes = 0;      // held by live Buffers, including rounding
  std::size_t rounding_bytes = 0;    // the part of in_use_bytes that rounding added
  std::size_t cached_bytes = 0;      // allocated on the device and not in use
  std::size_t high_water_bytes = 0;  // maximum of in_use_bytes so far
  std::size_t limit_bytes = 0;       // limit of in_use_bytes + cached_bytes
  std::array<std::size_t, kMemoryTags> by_tag{};
  std::size_t wrapped_bytes = 0;  // host memory lent to the device (wrap); not in any count above

  std::size_t slab_bytes = 0;          // all slabs
  std::size_t free_slab_bytes = 0;     // the unused part of slab_bytes
  std::size_t largest_free_bytes = 0;  // the largest piece that a slab can still return
  // Fraction of the free slab bytes outside their slab's largest free piece: 0 is best.
  double fragmentation = 0;
  std::size_t memory_objects = 0;  // cl_mem of the pool: blocks, slabs, sub-buffers

  std::size_t free_bytes() const noexcept {
    return limit_bytes - std::min(limit_bytes, in_use_bytes);
  }
};

struct PoolConfig {
  std::size_t limit_bytes = 0;  // 0: limit_share of the memory that the device reports
  double limit_share = 1;       // in (0, 1]
  // false: each Buffer is a cl_mem of exactly its size, freed at once, and each part is a
  // sub-buffer of exactly its size, so tools that check memory objects detect every overrun.
  bool sub_allocate = true;
  bool dry_run = false;                       // counts only: ContextConfig::dry_run
  Hooks hooks = {};                           // allocation: called for each Buffer
  std::shared_ptr<DeviceHealth> health = {};  // null: device health is neither checked nor updated
};

struct PoolState;
struct Allocation;  // a piece of a slab, or a separate block

class Buffer {
 public:
  Buffer() noexcept;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  // A Buffer for a caller's memory, outside the pool and its statistics. The memory is retained
  // here and released with the Buffer. REQUIRES: mem is not a sub-buffer. Errors: device.
  static Buffer adopt(cl_mem mem);

  // The memory is bytes [offset_bytes(), offset_bytes() + bytes()) of handle(), which may also
  // contain other Buffers.
  cl_mem handle() const noexcept;
  std::size_t offset_bytes() const noexcept;
  std::size_t bytes() const noexcept;
  // A cl_mem for a kernel argument that starts offset_bytes into this Buffer and has at least
  // `bytes` bytes; it may extend further. It is created once and kept with its parent cl_mem.
  // REQUIRES: offset_bytes is a multiple of the device's base alignment. Errors: device.
  cl_mem part(std::size_t offset_bytes, std::size_t bytes) const;

  // Whether the pool frees the memory, which it does only after all queued commands that were given
  // its address are done. False for a caller's memory and for host memory.
  bool is_pooled() const noexcept;
  // The address of handle() in the device's address space, once set_address() has been called.
  std::optional<std::uint64_t> address() const noexcept;
  void set_address(std::uint64_t address) const noexcept;

  // Whether Transfer::commit() has made all of its memory resident; a cached block keeps this
  // state.
  bool is_committed() const noexcept;
  void set_committed() const noexcept;

 private:
  friend class BufferPool;
  Buffer(std::shared_ptr<PoolState> pool, std::unique_ptr<Allocation> allocation) noexcept;
  void release() noexcept;

  std::shared_ptr<PoolState> pool_;  // null: adopted
  std::unique_ptr<Allocation> allocation_;
};

class BufferPool {
 public:
  // Errors: invalid_argument (a share outside (0, 1]).
  BufferPool(cl_context context, const Device& device, PoolConfig config = {});

  // Returns at least `bytes` bytes with undefined contents, at a multiple of the device's base
  // alignment. On failure the pool frees cached memory and tries once more.
  // Errors: out_of_memory, with the bytes wanted, the bytes free, the holders of the rest and the
  // settings to lower; device_lost.
  Buffer allocate(std::size_t bytes, MemoryTag tag);

  // Uses host memory as device memory without a copy: the device reads `bytes` in place, and
  // `owner` is kept until the device is done. The Buffer is read-only and does not count against
  // the limit. REQUIRES: a CPU device; bytes aligned for the types that kernels read.
  // Errors: device, with the driver's status, if the driver refuses the memory; device_lost.
  Buffer wrap(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  // Frees cached memory.
  void trim() noexcept;

  // Throws the out_of_memory error for a request of `bytes` that the device refused with `status`.
  [[noreturn]] void refuse(std::size_t bytes, MemoryTag tag, int status) const;

  MemoryStatistics statistics() const;
  // MemoryStatistics::in_use_bytes alone, which takes no time.
  std::size_t in_use_bytes() const noexcept;

 private:
  std::shared_ptr<PoolState> state_;
};

}  // namespace clora
