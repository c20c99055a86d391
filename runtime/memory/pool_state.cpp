#include "runtime/memory/pool_state.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"
#include "runtime/memory/huge_pages.hpp"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

namespace clora {
namespace {

constexpr std::size_t kLargestSlab = std::size_t{32} << 20U;
constexpr std::size_t kSmallestSlab = std::size_t{1} << 20U;
constexpr std::size_t kSlabsInLimit = 32;  // limit / slab size, at least
constexpr std::size_t kPiecesInSlab = 4;   // slab size / largest piece; larger requests get a block
constexpr std::size_t kCachedPart = 4;     // limit / largest cached size
constexpr std::size_t kSmallestPiece = 1024;  // limits the sub-buffers per slab
constexpr std::size_t kPage = 4096;

std::size_t limit_of(const PoolConfig& config, const Device& device) {
  require(config.limit_share > 0 && config.limit_share <= 1,
          "buffer pool: the memory limit share must be above 0 and at most 1, got {}",
          config.limit_share);
  if (config.limit_bytes != 0) return config.limit_bytes;
  return static_cast<std::size_t>(config.limit_share * static_cast<double>(device.memory_bytes));
}

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

std::string largest_tags(const MemoryStatistics& s) {
  std::vector<std::pair<std::size_t, std::string_view>> held;
  for (std::size_t i = 0; i < kMemoryTags; ++i) {
    if (s.by_tag[i] > 0) held.emplace_back(s.by_tag[i], name_of(static_cast<MemoryTag>(i)));
  }
  std::ranges::sort(held, std::ranges::greater());
  std::string text;
  for (const auto& [bytes, name] : held) {
    text += fmt::format("{}{} {:.1f} MiB", text.empty() ? "" : ", ", name, mebibytes(bytes));
  }
  return text.empty() ? "nothing" : text;
}

std::string_view what_to_lower(MemoryTag tag) {
  switch (tag) {
    case MemoryTag::weights:
      return "use a smaller model or one with lower-bit quantisation";
    case MemoryTag::cache:
      return "lower `context_length`";
    case MemoryTag::adapters:
      return "lower `rank` or the number of target modules";
    case MemoryTag::activations:
    case MemoryTag::scratch:
      break;
  }
  return "lower `batch_size` or `max_seq_length`";
}

// The driver frees a wrapped buffer when its last command is done, which may be after our release.
void CL_CALLBACK forget_owner(cl_mem, void* owner) {
  delete static_cast<std::shared_ptr<const void>*>(owner);
}

}  // namespace

PoolState::PoolState(cl_context context, const Device& device, PoolConfig pool_config)
    : config(std::move(pool_config)),
      device_name_(device.name),
      kind_(device.kind),
      memory_bytes_(device.memory_bytes),
      max_allocation_bytes_(device.max_allocation_bytes),
      granule_(std::max<std::size_t>(device.base_alignment_bytes, kSmallestPiece)) {
  statistics_.limit_bytes = limit_of(config, device);
  check_opencl(clRetainContext(context), "clRetainContext");
  context_.reset(context);
  slab_bytes_ = std::clamp(std::bit_floor(statistics_.limit_bytes / kSlabsInLimit + 1),
                           kSmallestSlab, kLargestSlab);
  slab_bytes_ = std::min(slab_bytes_, max_allocation_bytes_);
}

PoolState::~PoolState() = default;

// Rounds sizes so that similar sizes become equal and a freed piece fits the next request.
std::size_t PoolState::piece_bytes(std::size_t wanted) const noexcept {
  const std::size_t step = std::max(granule_, std::bit_floor(wanted) / 16);
  return round_up(std::max<std::size_t>(wanted, 1), step);
}

void PoolState::allocate(Allocation& allocation) {
  int status = CL_SUCCESS;
  if (!try_allocate(allocation, status)) {
    trim(0);
    if (!try_allocate(allocation, status)) refuse(allocation.wanted, allocation.tag, status);
  }
  count(static_cast<std::int64_t>(allocation.bytes()), allocation);
}

bool PoolState::try_allocate(Allocation& allocation, int& status) {
  const bool is_small = piece_bytes(allocation.wanted) <= slab_bytes_ / kPiecesInSlab;
  if (config.sub_allocate && is_small && take_piece(allocation, status)) return true;
  return take_block(allocation, status);
}

bool PoolState::take_piece(Allocation& allocation, int& status) {
  const std::size_t bytes = piece_bytes(allocation.wanted);
  allocation.piece = slabs_.take(bytes);
  if (allocation.piece == nullptr) {
    std::unique_ptr<DeviceBlock> slab = create(slab_bytes_, status);
    if (slab == nullptr) return false;
    slabs_.add(std::move(slab));
    allocation.piece = slabs_.take(bytes);
  }
  return true;
}

bool PoolState::take_block(Allocation& allocation, int& status) {
  const std::size_t wanted = std::max<std::size_t>(allocation.wanted, 1);
  const std::size_t bytes = config.sub_allocate ? std::min(round_up(wanted, kPage),
                                                           std::max(max_allocation_bytes_, wanted))
                                                : wanted;
  allocation.own = take_cached(bytes);
  if (allocation.own == nullptr) allocation.own = create(bytes, status);
  if (allocation.own == nullptr) return false;
  own_bytes_ += allocation.own->bytes();
  ++own_blocks_;
  return true;
}

// Returns a cached block of this size or at most an eighth larger, or null.
std::unique_ptr<DeviceBlock> PoolState::take_cached(std::size_t bytes) {
  const auto found = cached_.lower_bound(bytes);
  if (found == cached_.end() || found->first > bytes + bytes / 8) return nullptr;
  std::unique_ptr<DeviceBlock> block = std::move(found->second);
  cached_.erase(found);
  cached_bytes_ -= block->bytes();
  return block;
}

// Throws if a call was refused; if the device is gone, the Context is marked lost.
void PoolState::accept(int status, std::string_view call) const {
  if (config.health != nullptr) config.health->notice(status, call);
  check_opencl(status, call);
}

// Returns a new block, or null with the reason in `status`. Frees cached memory if the limit
// requires it.
std::unique_ptr<DeviceBlock> PoolState::create(std::size_t bytes, int& status) {
  const std::size_t limit = statistics_.limit_bytes;
  status = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  if (bytes > max_allocation_bytes_) return nullptr;
  using Reach = DeviceBlock::Reach;
  if (config.dry_run) return std::make_unique<DeviceBlock>(OwnedMem(), bytes, Reach::exact);
  if (bytes > limit) return nullptr;
  if (device_bytes() + bytes > limit) trim(0);
  if (device_bytes() + bytes > limit) return nullptr;
  OwnedMem mem = allocate_memory(bytes, status);
  if (mem == nullptr && !means_no_memory(status)) accept(status, "buffer pool: clCreateBuffer");
  if (mem == nullptr) return nullptr;
  const Reach shared = kind_ == DeviceKind::cpu ? Reach::to_the_end : Reach::exact_while_few;
  const Reach reach = config.sub_allocate ? shared : Reach::exact;
  return std::make_unique<DeviceBlock>(std::move(mem), bytes, reach);
}

// Memory of the driver, or on CPUs of this process, on huge pages; null with the reason in
// `status`. Tools that check accesses (exact mode) know the bounds of the driver's memory only.
OwnedMem PoolState::allocate_memory(std::size_t bytes, int& status) const {
  std::shared_ptr<void> pages;
  if (kind_ == DeviceKind::cpu && config.sub_allocate && bytes >= kHugePageBytes) {
    pages = huge_pages(bytes);
  }
  if (pages == nullptr) {
    return OwnedMem(clCreateBuffer(context_.get(), CL_MEM_READ_WRITE, bytes, nullptr, &status));
  }
  OwnedMem mem(clCreateBuffer(context_.get(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes,
                              pages.get(), &status));
  if (mem != nullptr) keep_until_freed(mem.get(), std::move(pages));
  return mem;
}

// The driver may use the memory after our release, until the last command is done.
void PoolState::keep_until_freed(cl_mem mem, std::shared_ptr<const void> owner) const {
  auto shared_owner = std::make_unique<std::shared_ptr<const void>>(std::move(owner));
  accept(clSetMemObjectDestructorCallback(mem, forget_owner, shared_owner.get()),
         "buffer pool: clSetMemObjectDestructorCallback");
  (void)shared_owner.release();
}

std::unique_ptr<DeviceBlock> PoolState::wrap(std::span<const std::byte> bytes,
                                             std::shared_ptr<const void> owner) {
  OwnedMem mem;
  if (!config.dry_run) {
    cl_int status = CL_SUCCESS;
    mem.reset(clCreateBuffer(context_.get(), CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, bytes.size(),
                             const_cast<std::byte*>(bytes.data()), &status));
    accept(status, "buffer pool: clCreateBuffer of host memory");
    keep_until_freed(mem.get(), std::move(owner));
  }
  auto block =
      std::make_unique<DeviceBlock>(std::move(mem), bytes.size(), DeviceBlock::Reach::exact);
  block->committed = true;
  return block;
}

void PoolState::give_back(Allocation& allocation) noexcept {
  if (allocation.wrapped) {
    wrapped_bytes -= allocation.wanted;
    return;
  }
  count(-static_cast<std::int64_t>(allocation.bytes()), allocation);
  if (allocation.piece != nullptr) {
    slabs_.give_back(allocation.piece);
  } else {
    const std::size_t bytes = allocation.own->bytes();
    own_bytes_ -= bytes;
    --own_blocks_;
    if (!config.sub_allocate) return;  // freed with the Allocation
    try {
      cached_.emplace(bytes, std::move(allocation.own));
      cached_bytes_ += bytes;
    } catch (...) {  // no memory for the list node: the block is freed instead
      (void)drain();
    }
  }
  trim(statistics_.limit_bytes / kCachedPart);
}

void PoolState::count(std::int64_t bytes, const Allocation& allocation) noexcept {
  MemoryStatistics& s = statistics_;
  const auto size = allocation.bytes();
  const auto rounding = size - std::min(size, allocation.wanted);
  std::size_t& of_tag = s.by_tag[static_cast<std::size_t>(allocation.tag)];
  if (bytes > 0) {
    s.in_use_bytes += size;
    s.rounding_bytes += rounding;
    of_tag += size;
    s.high_water_bytes = std::max(s.high_water_bytes, s.in_use_bytes);
  } else {
    s.in_use_bytes -= size;
    s.rounding_bytes -= rounding;
    of_tag -= size;
  }
  config.hooks.count({bytes, name_of(allocation.tag), s.in_use_bytes});
}

// Waits for the queue if kernels were given addresses: a driver keeps memory until its last command
// is done, but does not track commands that use the memory by address.
bool PoolState::drain() const noexcept {
  return !gave_addresses || config.health == nullptr || config.health->drain();
}

void PoolState::trim(std::size_t keep_bytes) noexcept {
  if (cached_bytes_ + slabs_.unused_bytes() > keep_bytes && !drain()) return;
  while (!cached_.empty() && cached_bytes_ + slabs_.unused_bytes() > keep_bytes) {
    const auto largest = std::prev(cached_.end());
    cached_bytes_ -= largest->first;
    cached_.erase(largest);
  }
  slabs_.trim(keep_bytes - std::min(keep_bytes, cached_bytes_));
}

void PoolState::refuse(std::size_t bytes, MemoryTag tag, int status) const {
  const MemoryStatistics& s = statistics_;
  const bool is_limited = s.limit_bytes < memory_bytes_;
  throw Error(
      ErrorCode::out_of_memory,
      fmt::format("buffer pool: {:.1f} MiB wanted for {}, {:.1f} MiB free of {:.1f} MiB on '{}' "
                  "(largest single allocation {:.0f} MiB; in use: {}); {}{}",
                  mebibytes(bytes), name_of(tag), mebibytes(s.free_bytes()),
                  mebibytes(s.limit_bytes), device_name_, mebibytes(max_allocation_bytes_),
                  largest_tags(s), what_to_lower(tag),
                  is_limited ? ", or raise the memory limit" : ""),
      status);
}

MemoryStatistics PoolState::statistics() const {
  MemoryStatistics s = statistics_;
  s.cached_bytes = device_bytes() - s.in_use_bytes;
  s.wrapped_bytes = wrapped_bytes;
  s.slab_bytes = slabs_.bytes();
  s.free_slab_bytes = slabs_.free_bytes();
  s.largest_free_bytes = slabs_.largest_free_bytes();
  s.memory_objects = slabs_.memory_objects() + own_blocks_ + cached_.size();
  if (s.free_slab_bytes > 0) {
    s.fragmentation =
        static_cast<double>(slabs_.scattered_bytes()) / static_cast<double>(s.free_slab_bytes);
  }
  return s;
}

}  // namespace clora
