#include "runtime/buffer_pool.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/opencl.hpp"

namespace clora {

// Sub-buffers stay as long as their block and go in the reverse order of their making: NVIDIA's
// driver (580, seen 2026-11) crashes in a later call where a parent's sub-buffers go in any other
// order.
struct Block {
  Block(OwnedMem memory, std::size_t size) : mem(std::move(memory)), bytes(size) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    while (!parts.empty()) parts.pop_back();
  }

  OwnedMem mem;
  std::size_t bytes;
  std::vector<OwnedMem> parts;
  std::map<std::pair<std::size_t, std::size_t>, cl_mem> part_at;  // by offset and bytes
};

struct PoolState {
  cl_context context = nullptr;
  std::string device_name;
  std::size_t max_allocation_bytes = 0;
  MemoryStatistics statistics;
  std::multimap<std::size_t, std::unique_ptr<Block>> cached;  // by block size

  PoolState() = default;
  PoolState(const PoolState&) = delete;
  PoolState& operator=(const PoolState&) = delete;
  ~PoolState() {
    cached.clear();
    if (context != nullptr) clReleaseContext(context);
  }

  void trim() {
    cached.clear();
    statistics.cached_bytes = 0;
  }
};

namespace {

constexpr std::size_t kSmallestBlock = 4096;

// Blocks come in steps of an eighth of a power of two: at most 12.5 % of a block is left unused,
// and sizes that differ by little share a free list.
std::size_t block_size(std::size_t bytes) {
  if (bytes <= kSmallestBlock) return kSmallestBlock;
  std::size_t step = kSmallestBlock / 8;
  while (step * 16 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

[[noreturn]] void fail_out_of_memory(const PoolState& pool, std::size_t bytes, int status) {
  const MemoryStatistics& s = pool.statistics;
  const std::size_t free = s.limit_bytes - std::min(s.limit_bytes, s.in_use_bytes);
  std::string tags;
  for (std::size_t i = 0; i < kMemoryTags; ++i) {
    if (s.by_tag[i] == 0) continue;
    tags += fmt::format("{}{} {:.0f} MiB", tags.empty() ? "" : ", ",
                        name_of(static_cast<MemoryTag>(i)), mebibytes(s.by_tag[i]));
  }
  throw Error(
      ErrorCode::out_of_memory,
      fmt::format("buffer pool: {:.0f} MiB wanted, {:.0f} MiB free of {:.0f} MiB on '{}' "
                  "(largest single allocation {:.0f} MiB; in use: {}); lower --batch-size "
                  "or --max-seq-length",
                  mebibytes(bytes), mebibytes(free), mebibytes(s.limit_bytes), pool.device_name,
                  mebibytes(pool.max_allocation_bytes), tags.empty() ? "nothing" : tags),
      status);
}

// A cached block of this size, or null.
std::unique_ptr<Block> take_cached(PoolState& pool, std::size_t size) {
  const auto found = pool.cached.find(size);
  if (found == pool.cached.end()) return nullptr;
  std::unique_ptr<Block> block = std::move(found->second);
  pool.cached.erase(found);
  pool.statistics.cached_bytes -= size;
  return block;
}

std::unique_ptr<Block> create(PoolState& pool, std::size_t size, int& status) {
  MemoryStatistics& s = pool.statistics;
  status = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  if (size > pool.max_allocation_bytes || s.in_use_bytes + size > s.limit_bytes) return nullptr;
  if (s.in_use_bytes + s.cached_bytes + size > s.limit_bytes) pool.trim();
  OwnedMem mem(clCreateBuffer(pool.context, CL_MEM_READ_WRITE, size, nullptr, &status));
  return mem == nullptr ? nullptr : std::make_unique<Block>(std::move(mem), size);
}

}  // namespace

std::string_view name_of(MemoryTag tag) {
  constexpr std::array<std::string_view, kMemoryTags> names{"weights", "activations", "adapters",
                                                            "cache", "scratch"};
  return names.at(static_cast<std::size_t>(tag));
}

Buffer::Buffer() noexcept = default;

Buffer::Buffer(std::shared_ptr<PoolState> pool, std::unique_ptr<Block> block, MemoryTag tag)
    : pool_(std::move(pool)), block_(std::move(block)), tag_(tag) {}

Buffer Buffer::adopt(cl_mem mem) {
  std::size_t bytes = 0;
  check_opencl(clGetMemObjectInfo(mem, CL_MEM_SIZE, sizeof bytes, &bytes, nullptr),
               "buffer: clGetMemObjectInfo");
  check_opencl(clRetainMemObject(mem), "buffer: clRetainMemObject");
  return Buffer(nullptr, std::make_unique<Block>(OwnedMem(mem), bytes), MemoryTag::scratch);
}

Buffer::Buffer(Buffer&& other) noexcept = default;

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    pool_ = std::move(other.pool_);
    block_ = std::move(other.block_);
    tag_ = other.tag_;
  }
  return *this;
}

Buffer::~Buffer() { release(); }

cl_mem Buffer::handle() const noexcept { return block_ == nullptr ? nullptr : block_->mem.get(); }

std::size_t Buffer::bytes() const noexcept { return block_ == nullptr ? 0 : block_->bytes; }

cl_mem Buffer::part(std::size_t offset_bytes, std::size_t bytes) const {
  if (offset_bytes == 0) return handle();
  cl_mem& part = block_->part_at[{offset_bytes, bytes}];
  if (part == nullptr) {
    const cl_buffer_region region{offset_bytes, bytes};
    cl_int status = CL_SUCCESS;
    OwnedMem made(clCreateSubBuffer(handle(), 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
    check_opencl(status, "buffer: clCreateSubBuffer");
    part = made.get();
    block_->parts.push_back(std::move(made));
  }
  return part;
}

void Buffer::release() noexcept {
  if (pool_ == nullptr || block_ == nullptr) return;
  MemoryStatistics& s = pool_->statistics;
  const std::size_t bytes = block_->bytes;
  s.in_use_bytes -= bytes;
  s.by_tag[static_cast<std::size_t>(tag_)] -= bytes;
  try {
    pool_->cached.emplace(bytes, std::move(block_));
    s.cached_bytes += bytes;
  } catch (...) {  // no memory for the list's node: the block is freed instead
    block_.reset();
  }
  pool_.reset();
}

BufferPool::BufferPool(cl_context context, const Device& device, std::size_t limit_bytes)
    : state_(std::make_shared<PoolState>()) {
  check_opencl(clRetainContext(context), "clRetainContext");
  state_->context = context;
  state_->device_name = device.name;
  state_->max_allocation_bytes = device.max_allocation_bytes;
  state_->statistics.limit_bytes = limit_bytes == 0 ? device.memory_bytes : limit_bytes;
}

Buffer BufferPool::allocate(std::size_t bytes, MemoryTag tag) {
  const std::size_t size =
      std::max(bytes, std::min(block_size(bytes), state_->max_allocation_bytes));
  std::unique_ptr<Block> block = take_cached(*state_, size);
  int status = CL_SUCCESS;
  if (block == nullptr) block = create(*state_, size, status);
  if (block == nullptr) {
    trim();
    block = create(*state_, size, status);
  }
  if (block == nullptr) fail_out_of_memory(*state_, bytes, status);
  MemoryStatistics& s = state_->statistics;
  s.in_use_bytes += size;
  s.by_tag[static_cast<std::size_t>(tag)] += size;
  s.high_water_bytes = std::max(s.high_water_bytes, s.in_use_bytes);
  return Buffer(state_, std::move(block), tag);
}

void BufferPool::trim() { state_->trim(); }

MemoryStatistics BufferPool::statistics() const { return state_->statistics; }

}  // namespace clora
