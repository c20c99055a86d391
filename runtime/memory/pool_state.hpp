// PoolState: the state shared by a BufferPool and its Buffers. Private to
// runtime/memory/buffer_pool.cpp.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "clora/runtime/memory/buffer_pool.hpp"
#include "runtime/device/device_block.hpp"
#include "runtime/memory/slabs.hpp"

namespace clora {

struct Allocation {
  std::unique_ptr<DeviceBlock> own;  // null: a piece of a slab
  Piece* piece = nullptr;
  MemoryTag tag = MemoryTag::scratch;
  std::size_t wanted = 0;
  bool wrapped = false;  // host memory

  DeviceBlock& block() const noexcept { return own != nullptr ? *own : *piece->slab->block; }
  std::size_t offset() const noexcept { return own != nullptr ? 0 : piece->offset; }
  std::size_t bytes() const noexcept { return own != nullptr ? own->bytes() : piece->bytes; }
};

struct PoolState {
  PoolState(cl_context context, const Device& device, PoolConfig config);
  ~PoolState();
  PoolState(const PoolState&) = delete;
  PoolState& operator=(const PoolState&) = delete;

  // Fills in `allocation`, whose tag and wanted are set. Errors: out_of_memory.
  void allocate(Allocation& allocation);
  void give_back(Allocation& allocation) noexcept;
  std::unique_ptr<DeviceBlock> wrap(std::span<const std::byte> bytes,
                                    std::shared_ptr<const void> owner);
  // Frees cached memory until at most keep_bytes of it are left; frees nothing if the device is
  // stuck.
  void trim(std::size_t keep_bytes) noexcept;
  [[noreturn]] void refuse(std::size_t bytes, MemoryTag tag, int status) const;
  MemoryStatistics statistics() const;
  std::size_t in_use_bytes() const noexcept { return statistics_.in_use_bytes; }

  PoolConfig config;
  std::size_t wrapped_bytes = 0;
  bool gave_addresses = false;  // whether kernels were given addresses of blocks

 private:
  bool drain() const noexcept;
  bool try_allocate(Allocation& allocation, int& status);
  bool take_piece(Allocation& allocation, int& status);
  bool take_block(Allocation& allocation, int& status);
  std::unique_ptr<DeviceBlock> take_cached(std::size_t bytes);
  std::unique_ptr<DeviceBlock> create(std::size_t bytes, int& status);
  OwnedMem allocate_memory(std::size_t bytes, int& status) const;
  void keep_until_freed(cl_mem mem, std::shared_ptr<const void> owner) const;
  void accept(int status, std::string_view call) const;
  void count(std::int64_t bytes, const Allocation& allocation) noexcept;

  std::size_t device_bytes() const noexcept { return slabs_.bytes() + own_bytes_ + cached_bytes_; }
  std::size_t piece_bytes(std::size_t wanted) const noexcept;

  OwnedContext context_;
  std::string device_name_;
  DeviceKind kind_ = DeviceKind::other;
  std::size_t memory_bytes_ = 0;
  std::size_t max_allocation_bytes_ = 0;
  std::size_t granule_ = 0;     // piece sizes are multiples of it
  std::size_t slab_bytes_ = 0;  // size of a new slab
  Slabs slabs_;
  std::multimap<std::size_t, std::unique_ptr<DeviceBlock>> cached_;  // separate blocks, by size
  std::size_t cached_bytes_ = 0;                                     // in cached_
  std::size_t own_bytes_ = 0;                                        // separate blocks in use
  std::size_t own_blocks_ = 0;
  MemoryStatistics statistics_;  // in_use, rounding, high_water, limit and by_tag only
};

}  // namespace clora
