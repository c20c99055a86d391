// BufferPool: device memory with a limit, statistics by tag, and a cache of what was given back.
// A Buffer is a move-only handle that gives its memory back.
//
// Small requests are pieces of few large cl_mem ("slabs"): a Buffer begins at offset_bytes() of
// handle(). Large ones have a cl_mem of their own. docs/decisions/memory-pool.md says why.
// A Buffer may outlive the pool object that made it: both share the pool's state.
// Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "runtime/device.hpp"
#include "runtime/device_health.hpp"
#include "runtime/hooks.hpp"
#include "runtime/opencl_handles.hpp"

namespace clora {

enum class MemoryTag { weights, activations, adapters, cache, scratch };
inline constexpr std::size_t kMemoryTags = 5;
std::string_view name_of(MemoryTag tag);

struct MemoryStatistics {
  std::size_t in_use_bytes = 0;      // held by live Buffers, with what rounding adds
  std::size_t rounding_bytes = 0;    // the part of it that no caller asked for
  std::size_t cached_bytes = 0;      // taken from the device and not in use
  std::size_t high_water_bytes = 0;  // the most in_use_bytes has been
  std::size_t limit_bytes = 0;       // of in_use_bytes + cached_bytes
  std::array<std::size_t, kMemoryTags> by_tag{};
  std::size_t wrapped_bytes = 0;  // host memory lent to the device (wrap); in none of the above

  std::size_t slab_bytes = 0;          // of all slabs
  std::size_t free_slab_bytes = 0;     // of them not in use
  std::size_t largest_free_bytes = 0;  // what a slab could still give in one piece
  // Share of the free slab bytes that lie outside their slab's largest free piece: 0 is best.
  double fragmentation = 0;
  std::size_t memory_objects = 0;  // cl_mem of the pool: blocks, slabs, and slabs' sub-buffers
};

struct PoolConfig {
  std::size_t limit_bytes = 0;  // 0: limit_share of what the device reports
  double limit_share = 1;       // in (0, 1]
  // false: each Buffer is a cl_mem of exactly its size, freed at once, and each part one of exactly
  // its size, so that tools that watch memory objects see every overrun.
  bool sub_allocate = true;
  Hooks hooks = {};                           // allocation: called for each Buffer
  std::shared_ptr<DeviceHealth> health = {};  // null: neither asked nor told
};

struct PoolState;
struct Allocation;  // a piece of a slab, or a block of its own

class Buffer {
 public:
  Buffer() noexcept;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  // A caller's memory, in no pool and no statistics: retained here, released with the Buffer.
  // REQUIRES: mem is no sub-buffer. Errors: device.
  static Buffer adopt(cl_mem mem);

  // The memory is bytes [offset_bytes(), offset_bytes() + bytes()) of handle(), which holds other
  // Buffers, too.
  cl_mem handle() const noexcept;
  std::size_t offset_bytes() const noexcept;
  std::size_t bytes() const noexcept;
  // A cl_mem that begins offset_bytes into this Buffer and holds at least `bytes` bytes, for a
  // kernel's argument; it may reach further. Made once, and kept with the cl_mem that it is of.
  // REQUIRES: offset_bytes a multiple of the device's base alignment. Errors: device.
  cl_mem part(std::size_t offset_bytes, std::size_t bytes) const;

  // Whether the pool frees the memory, then with nothing left in the queue that was given its
  // address: so neither a caller's nor host memory.
  bool is_pooled() const noexcept;
  // Of handle() in the device's address space, once somebody has found it out.
  std::optional<std::uint64_t> address() const noexcept;
  void set_address(std::uint64_t address) const noexcept;

  // Whether Transfer::commit() has forced all of it into memory; a cached block stays so.
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

  // At least `bytes` bytes, their contents undefined, at a multiple of the device's base alignment.
  // On failure cached memory is freed and the allocation is tried once more.
  // Errors: out_of_memory, with what was wanted, what is free, who holds the rest and what to
  // lower; device_lost.
  Buffer allocate(std::size_t bytes, MemoryTag tag);

  // Host memory as device memory: the device reads `bytes` where they lie, and `owner` is kept
  // until it is done with them. The Buffer is for reading only. It does not count against the
  // limit. REQUIRES: a CPU device; bytes aligned for the types that kernels read.
  // Errors: device, with the driver's status, where it will not have it; device_lost.
  Buffer wrap(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  // Frees what is cached.
  void trim() noexcept;

  // Throws the out_of_memory error of a request of `bytes` that the device refused with `status`.
  [[noreturn]] void refuse(std::size_t bytes, MemoryTag tag, int status) const;

  MemoryStatistics statistics() const;

 private:
  std::shared_ptr<PoolState> state_;
};

}  // namespace clora
