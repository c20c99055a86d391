#include "runtime/memory/slabs.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace clora {
namespace {

// Maximum number of sub-buffers that a reused slab keeps. More are dropped while no piece is in
// use, because only then is their release order free.
constexpr std::size_t kMaxRetainedParts = 1024;

}  // namespace

bool BySize::operator()(const Piece* a, const Piece* b) const noexcept {
  return std::tie(a->bytes, a->slab->number, a->offset) <
         std::tie(b->bytes, b->slab->number, b->offset);
}

bool BySize::operator()(const Piece* a, std::size_t bytes) const noexcept {
  return a->bytes < bytes;
}

Piece* Slabs::take(std::size_t bytes) {
  const auto found = free_.lower_bound(bytes);
  if (found == free_.end()) return nullptr;
  Piece& piece = **found;
  Slab& slab = *piece.slab;
  const bool was_unused = slab.is_unused();
  if (piece.bytes > bytes) {
    cut(piece, bytes);
  } else {
    piece.entry = free_.extract(found);
  }
  if (was_unused) unused_bytes_ -= slab.block->bytes();
  free_bytes_ -= bytes;
  return &piece;
}

// Takes the piece off the free list and shortens it to `bytes` bytes; the rest becomes a free piece
// after it.
void Slabs::cut(Piece& piece, std::size_t bytes) {
  Slab& slab = *piece.slab;
  const auto rest = slab.pieces.emplace(std::next(piece.self));
  rest->slab = &slab;
  rest->offset = piece.offset + bytes;
  rest->bytes = piece.bytes - bytes;
  rest->self = rest;
  try {
    free_.insert(&*rest);
  } catch (...) {
    slab.pieces.erase(rest);
    throw;
  }
  piece.entry = free_.extract(&piece);
  piece.bytes = bytes;
}

void Slabs::give_back(Piece* piece) noexcept {
  Slab& slab = *piece->slab;
  free_bytes_ += piece->bytes;
  const auto next = std::next(piece->self);
  if (next != slab.pieces.end() && next->is_free()) {
    free_.erase(&*next);
    piece->bytes += next->bytes;
    slab.pieces.erase(next);
  }
  FreePieces::node_type entry = std::move(piece->entry);
  if (piece->self != slab.pieces.begin() && std::prev(piece->self)->is_free()) {
    Piece& before = *std::prev(piece->self);
    entry = free_.extract(&before);
    before.bytes += piece->bytes;
    slab.pieces.erase(piece->self);
  }
  free_.insert(std::move(entry));
  if (!slab.is_unused()) return;
  unused_bytes_ += slab.block->bytes();
  if (slab.block->parts() > kMaxRetainedParts) slab.block->drop_parts();
}

void Slabs::add(std::unique_ptr<DeviceBlock> block) {
  const std::size_t bytes = block->bytes();
  Slab& slab = slabs_.emplace_back();
  slab.number = created_++;
  slab.block = std::move(block);
  try {
    Piece& all = slab.pieces.emplace_back();
    all.slab = &slab;
    all.bytes = bytes;
    all.self = slab.pieces.begin();
    free_.insert(&all);
  } catch (...) {
    slabs_.pop_back();
    throw;
  }
  bytes_ += bytes;
  unused_bytes_ += bytes;
  free_bytes_ += bytes;
}

void Slabs::trim(std::size_t keep_bytes) noexcept {
  for (auto at = slabs_.end(); at != slabs_.begin() && unused_bytes_ > keep_bytes;) {
    --at;
    if (!at->is_unused()) continue;
    const std::size_t bytes = at->block->bytes();
    free_.erase(&at->pieces.front());
    at = slabs_.erase(at);
    bytes_ -= bytes;
    unused_bytes_ -= bytes;
    free_bytes_ -= bytes;
  }
}

std::size_t Slabs::largest_free_bytes() const noexcept {
  return free_.empty() ? 0 : (*free_.rbegin())->bytes;
}

std::size_t Slabs::scattered_bytes() const {
  std::size_t scattered = 0;
  for (const Slab& slab : slabs_) {
    std::size_t sum = 0, largest = 0;
    for (const Piece& piece : slab.pieces) {
      if (!piece.is_free()) continue;
      sum += piece.bytes;
      largest = std::max(largest, piece.bytes);
    }
    scattered += sum - largest;
  }
  return scattered;
}

std::size_t Slabs::memory_objects() const noexcept {
  std::size_t sum = slabs_.size();
  for (const Slab& slab : slabs_) sum += slab.block->parts();
  return sum;
}

}  // namespace clora
