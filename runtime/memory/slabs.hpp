// Slabs: allocation of pieces from a few large blocks of device memory. For the .cpp files of
// runtime/ only.
//
// A request takes the smallest free piece that fits, in the oldest slab if several are equal, so
// that younger slabs become empty. A piece that is given back merges with its free neighbours.
// Taking and giving back take O(log pieces) and make no OpenCL calls. Threads: one at a time.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <set>

#include "runtime/device/device_block.hpp"

namespace clora {

struct Slab;
struct Piece;

// Orders free pieces by size, then by the slab's age and the offset in it.
struct BySize {
  using is_transparent = void;
  bool operator()(const Piece* a, const Piece* b) const noexcept;
  bool operator()(const Piece* a, std::size_t bytes) const noexcept;
};
using FreePieces = std::set<Piece*, BySize>;

struct Piece {
  Slab* slab = nullptr;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::list<Piece>::iterator self;
  // For a piece in use: its node of the free list, kept so that giving back allocates no memory.
  FreePieces::node_type entry;

  bool is_free() const noexcept { return entry.empty(); }
};

struct Slab {
  std::unique_ptr<DeviceBlock> block;
  std::size_t number = 0;   // in creation order
  std::list<Piece> pieces;  // by offset, without gaps; no two adjacent free ones

  bool is_unused() const noexcept { return pieces.size() == 1 && pieces.front().is_free(); }
};

class Slabs {
 public:
  // Returns a piece of `bytes` bytes; null if no slab has space.
  Piece* take(std::size_t bytes);
  void give_back(Piece* piece) noexcept;

  // Adds a new, entirely free slab.
  void add(std::unique_ptr<DeviceBlock> block);
  // Frees unused slabs, the youngest first, until at most keep_bytes of them are left.
  void trim(std::size_t keep_bytes) noexcept;

  std::size_t bytes() const noexcept { return bytes_; }                // of all slabs
  std::size_t unused_bytes() const noexcept { return unused_bytes_; }  // of unused slabs
  std::size_t free_bytes() const noexcept { return free_bytes_; }
  std::size_t largest_free_bytes() const noexcept;
  // The free bytes outside the largest free piece of their slab, which fragmentation makes
  // unavailable to large requests.
  std::size_t scattered_bytes() const;
  std::size_t memory_objects() const noexcept;  // slabs and their sub-buffers
  std::size_t slabs() const noexcept { return slabs_.size(); }

 private:
  void cut(Piece& piece, std::size_t bytes);

  std::list<Slab> slabs_;
  FreePieces free_;
  std::size_t created_ = 0;
  std::size_t bytes_ = 0;
  std::size_t unused_bytes_ = 0;
  std::size_t free_bytes_ = 0;
};

}  // namespace clora
