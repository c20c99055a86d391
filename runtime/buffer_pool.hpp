// BufferPool: device memory by size class, with a limit, statistics by tag, and free lists that
// keep returned blocks for the next caller. A Buffer is a move-only handle that gives its block
// back.
//
// A Buffer may outlive the pool object that made it: both share the pool's state.
// Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "runtime/device.hpp"
#include "runtime/opencl_handles.hpp"

namespace clora {

enum class MemoryTag { weights, activations, adapters, cache, scratch };
inline constexpr std::size_t kMemoryTags = 5;
std::string_view name_of(MemoryTag tag);

struct MemoryStatistics {
  std::size_t in_use_bytes = 0;      // held by live Buffers
  std::size_t cached_bytes = 0;      // in the free lists
  std::size_t high_water_bytes = 0;  // the most in_use_bytes has been
  std::size_t limit_bytes = 0;
  std::array<std::size_t, kMemoryTags> by_tag{};
};

struct PoolState;
struct Block;  // one cl_mem and the sub-buffers made of it

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

  cl_mem handle() const noexcept;
  std::size_t bytes() const noexcept;
  // A cl_mem of bytes [offset_bytes, offset_bytes + bytes) of this Buffer: the handle itself for
  // offset 0, else a sub-buffer that is made once and lives as long as the block.
  // REQUIRES: offset_bytes a multiple of the device's base alignment. Errors: device.
  cl_mem part(std::size_t offset_bytes, std::size_t bytes) const;

 private:
  friend class BufferPool;
  Buffer(std::shared_ptr<PoolState> pool, std::unique_ptr<Block> block, MemoryTag tag);
  void release() noexcept;

  std::shared_ptr<PoolState> pool_;
  std::unique_ptr<Block> block_;
  MemoryTag tag_ = MemoryTag::scratch;
};

class BufferPool {
 public:
  // limit_bytes 0: what the device reports as its memory.
  BufferPool(cl_context context, const Device& device, std::size_t limit_bytes);

  // A block of at least `bytes` bytes, its contents undefined. On failure cached blocks are freed
  // and the allocation is tried once more. Errors: out_of_memory, with what was wanted, what is
  // free, and what to lower.
  Buffer allocate(std::size_t bytes, MemoryTag tag);

  // Frees every cached block.
  void trim();

  MemoryStatistics statistics() const;

 private:
  std::shared_ptr<PoolState> state_;
};

}  // namespace clora
