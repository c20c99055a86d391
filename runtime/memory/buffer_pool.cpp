#include "clora/runtime/memory/buffer_pool.hpp"

#include <string>
#include <utility>

#include "runtime/device/opencl.hpp"
#include "runtime/memory/pool_state.hpp"

namespace clora {

std::string_view name_of(MemoryTag tag) {
  constexpr std::array<std::string_view, kMemoryTags> names{"weights", "activations", "adapters",
                                                            "cache", "scratch"};
  return names.at(static_cast<std::size_t>(tag));
}

Buffer::Buffer() noexcept = default;

Buffer::Buffer(std::shared_ptr<PoolState> pool, std::unique_ptr<Allocation> allocation) noexcept
    : pool_(std::move(pool)), allocation_(std::move(allocation)) {}

Buffer::Buffer(Buffer&& other) noexcept = default;

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    pool_ = std::move(other.pool_);
    allocation_ = std::move(other.allocation_);
  }
  return *this;
}

Buffer::~Buffer() { release(); }

Buffer Buffer::adopt(cl_mem mem) {
  std::size_t bytes = 0;
  check_opencl(clGetMemObjectInfo(mem, CL_MEM_SIZE, sizeof bytes, &bytes, nullptr),
               "buffer: clGetMemObjectInfo");
  check_opencl(clRetainMemObject(mem), "buffer: clRetainMemObject");
  OwnedMem retained(mem);
  auto allocation = std::make_unique<Allocation>();
  allocation->own =
      std::make_unique<DeviceBlock>(std::move(retained), bytes, DeviceBlock::Reach::exact);
  return Buffer(nullptr, std::move(allocation));
}

cl_mem Buffer::handle() const noexcept {
  return allocation_ == nullptr ? nullptr : allocation_->block().handle();
}

std::size_t Buffer::offset_bytes() const noexcept {
  return allocation_ == nullptr ? 0 : allocation_->offset();
}

std::size_t Buffer::bytes() const noexcept {
  return allocation_ == nullptr ? 0 : allocation_->bytes();
}

cl_mem Buffer::part(std::size_t offset_bytes, std::size_t bytes) const {
  return allocation_->block().part(allocation_->offset() + offset_bytes, bytes);
}

bool Buffer::is_pooled() const noexcept { return pool_ != nullptr && !allocation_->wrapped; }

std::optional<std::uint64_t> Buffer::address() const noexcept {
  return allocation_ == nullptr ? std::nullopt : allocation_->block().address;
}

void Buffer::set_address(std::uint64_t address) const noexcept {
  if (pool_ == nullptr) return;
  allocation_->block().address = address;
  pool_->gave_addresses = true;
}

bool Buffer::is_committed() const noexcept {
  return allocation_ == nullptr || (allocation_->own != nullptr && allocation_->own->committed);
}

void Buffer::set_committed() const noexcept {
  if (allocation_ != nullptr && allocation_->own != nullptr) allocation_->own->committed = true;
}

void Buffer::release() noexcept {
  if (pool_ != nullptr && allocation_ != nullptr) pool_->give_back(*allocation_);
  allocation_.reset();
  pool_.reset();
}

BufferPool::BufferPool(cl_context context, const Device& device, PoolConfig config)
    : state_(std::make_shared<PoolState>(context, device, std::move(config))) {}

Buffer BufferPool::allocate(std::size_t bytes, MemoryTag tag) {
  if (state_->config.health != nullptr) state_->config.health->require_usable("buffer pool");
  auto allocation = std::make_unique<Allocation>();
  allocation->tag = tag;
  allocation->wanted = bytes;
  state_->allocate(*allocation);
  return Buffer(state_, std::move(allocation));
}

Buffer BufferPool::wrap(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  auto allocation = std::make_unique<Allocation>();
  allocation->wrapped = true;
  allocation->wanted = bytes.size();
  allocation->own = state_->wrap(bytes, std::move(owner));
  state_->wrapped_bytes += bytes.size();
  return Buffer(state_, std::move(allocation));
}

void BufferPool::trim() noexcept { state_->trim(0); }

void BufferPool::refuse(std::size_t bytes, MemoryTag tag, int status) const {
  state_->refuse(bytes, tag, status);
}

MemoryStatistics BufferPool::statistics() const { return state_->statistics(); }

std::size_t BufferPool::in_use_bytes() const noexcept { return state_->in_use_bytes(); }

}  // namespace clora
