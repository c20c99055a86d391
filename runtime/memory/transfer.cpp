#include "clora/runtime/memory/transfer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "runtime/device/opencl.hpp"
#include "runtime/fail.hpp"
#include "runtime/memory/pinned_memory.hpp"

namespace clora {
namespace {

// Below this size a direct transfer is as fast as a staged one.
constexpr std::size_t kLargeBytes = std::size_t{1} << 20U;
constexpr std::size_t kSmallestWrap = 16384;
constexpr std::size_t kPage = 4096;
// NVIDIA's driver (580) loses the context if a fill reaches far beyond 2^31 patterns.
constexpr std::size_t kMaxFilledBytes = std::size_t{4} << 30U;

cl_mem mem_of(const Tensor& tensor) { return tensor.storage()->mem; }

std::size_t place_of(const Tensor& tensor) {
  return tensor.storage()->origin + tensor.offset_bytes();
}

// The alignment of the largest scalar that kernels read from a tensor of this type; quantised
// blocks have 16-bit scales.
std::size_t alignment_of(DType type) {
  return type == DType::f32 || type == DType::i32 || type == DType::u32 ? 4 : 2;
}

// Reads a byte of every page, so that the file system loads the data now.
void touch(std::span<const std::byte> bytes) {
  const volatile std::byte* data = bytes.data();
  for (std::size_t at = 0; at < bytes.size(); at += kPage) static_cast<void>(data[at]);
  static_cast<void>(data[bytes.size() - 1]);
}

// Whether the status means that the driver only refuses this host memory as a buffer, so a copy may
// still work.
bool refuses_host_memory(int status) {
  return status == CL_INVALID_HOST_PTR || status == CL_INVALID_VALUE ||
         status == CL_INVALID_BUFFER_SIZE || status == CL_INVALID_OPERATION ||
         status == CL_MEM_OBJECT_ALLOCATION_FAILURE;
}

// Throws if a call was refused; if the device is gone, the Context is marked lost.
void accept(DeviceHealth& health, cl_int status, std::string_view call) {
  health.notice(status, call);
  check_opencl(status, call);
}

// Maps a region of a buffer into host memory for one scope.
class MappedRegion {
 public:
  MappedRegion(cl_command_queue queue, const std::shared_ptr<DeviceHealth>& health, cl_mem mem,
               std::size_t offset, std::size_t bytes)
      : queue_(queue), health_(health), mem_(mem) {
    cl_event event = nullptr;
    cl_int status = CL_SUCCESS;
    void* data = clEnqueueMapBuffer(queue, mem, CL_FALSE, CL_MAP_WRITE_INVALIDATE_REGION, offset,
                                    bytes, 0, nullptr, &event, &status);
    accept(*health_, status, "transfer: clEnqueueMapBuffer");
    data_ = {static_cast<std::byte*>(data), bytes};
    try {
      Fence(event, health_).wait();
    } catch (...) {
      clEnqueueUnmapMemObject(queue_, mem_, data, 0, nullptr, nullptr);
      throw;
    }
  }
  MappedRegion(const MappedRegion&) = delete;
  MappedRegion& operator=(const MappedRegion&) = delete;
  ~MappedRegion() {
    if (!data_.empty()) {
      clEnqueueUnmapMemObject(queue_, mem_, data_.data(), 0, nullptr, nullptr);
    }
  }

  std::span<std::byte> bytes() const noexcept { return data_; }
  void unmap() {
    cl_event event = nullptr;
    accept(
        *health_,
        clEnqueueUnmapMemObject(queue_, mem_, std::exchange(data_, {}).data(), 0, nullptr, &event),
        "transfer: clEnqueueUnmapMemObject");
    Fence(event, health_).wait();
  }

 private:
  cl_command_queue queue_;
  std::shared_ptr<DeviceHealth> health_;
  cl_mem mem_;
  std::span<std::byte> data_;
};

// One of the two pinned buffers.
class StagingBuffer {
 public:
  StagingBuffer(cl_context context, cl_command_queue queue, std::size_t bytes)
      : pinned_(context, queue, bytes) {}
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;
  ~StagingBuffer() {
    try {
      busy.wait();
    } catch (...) {  // the transfer failed; its waiter got the error
    }
  }

  std::span<std::byte> bytes() const noexcept { return pinned_.bytes(); }

  Fence busy;  // the last command that uses the memory

 private:
  PinnedBytes pinned_;
};

}  // namespace

struct Transfer::State {
  cl_context context;
  cl_command_queue queue;
  bool is_cpu;
  BufferPool* pool;
  std::shared_ptr<DeviceHealth> health;
  Profiler* profiler;  // null: off
  bool dry_run;
  std::array<std::unique_ptr<StagingBuffer>, 2> staging;

  // Fills the buffer with zeros; returns success, or the status that means out of memory. Errors:
  // all others. GPU drivers allocate a buffer's memory as a unit, so filling the first part of it
  // is enough.
  cl_int fill(const Buffer& buffer) const {
    const std::size_t bytes = is_cpu ? buffer.bytes() : std::min(buffer.bytes(), kMaxFilledBytes);
    cl_event event = nullptr;
    const cl_int status =
        enqueue_zeros(queue, buffer.handle(), buffer.offset_bytes(), bytes, &event);
    if (means_no_memory(status)) return status;
    accept(*health, status, "transfer: clEnqueueFillBuffer");
    Fence(event, health).wait();
    return CL_SUCCESS;
  }

  // Returns the i-th staging buffer, idle and with at least `bytes` bytes.
  StagingBuffer& slot(std::size_t i, std::size_t bytes) {
    std::unique_ptr<StagingBuffer>& slot = staging[i % staging.size()];
    if (slot == nullptr || slot->bytes().size() < bytes) {
      slot.reset();
      slot = std::make_unique<StagingBuffer>(context, queue, std::max(bytes, kChunkBytes));
    }
    std::exchange(slot->busy, {}).wait();
    return *slot;
  }

  // Adds the transfer to the profile; otherwise its time would count as a gap.
  void note(std::string_view label, std::size_t bytes, cl_event event) const {
    if (profiler == nullptr) return;
    accept(*health, clRetainEvent(event), "transfer: clRetainEvent");
    profiler->add(label, {0, static_cast<double>(bytes)}, event);
  }

  // Enqueues with call(&event) and adds the transfer to the profile as `label`. who: the call's
  // name.
  template <class Call>
  Fence enqueue(std::string_view label, std::string_view who, std::size_t bytes, Call call) const {
    if (profiler != nullptr) profiler->before_enqueue();
    cl_event event = nullptr;
    accept(*health, call(&event), who);
    Fence fence(event, health);
    note(label, bytes, event);
    return fence;
  }
  Fence enqueue_write(const Tensor& dst, std::size_t at, std::span<const std::byte> bytes) const {
    return enqueue("write", "transfer: clEnqueueWriteBuffer", bytes.size(), [&](cl_event* event) {
      return clEnqueueWriteBuffer(queue, mem_of(dst), CL_FALSE, place_of(dst) + at, bytes.size(),
                                  bytes.data(), 0, nullptr, event);
    });
  }
  Fence enqueue_read(const Tensor& src, std::size_t at, std::span<std::byte> bytes) const {
    return enqueue("read", "transfer: clEnqueueReadBuffer", bytes.size(), [&](cl_event* event) {
      return clEnqueueReadBuffer(queue, mem_of(src), CL_FALSE, place_of(src) + at, bytes.size(),
                                 bytes.data(), 0, nullptr, event);
    });
  }

  // A transfer of the caller's memory: if it fails, the device has stopped using the memory before
  // the error reaches the caller, who may free it. A stuck device may still use it.
  template <class Enqueue>
  void finish_or_drain(const Enqueue& enqueue) const {
    try {
      enqueue().wait();
    } catch (...) {
      health->drain();
      throw;
    }
  }

  void stream_in_place(const Tensor& dst, std::size_t chunk, const Pack& pack) const {
    MappedRegion region(queue, health, mem_of(dst), place_of(dst), dst.bytes());
    for (std::size_t at = 0; at < dst.bytes(); at += chunk) {
      pack(region.bytes().subspan(at, std::min(chunk, dst.bytes() - at)), at);
    }
    region.unmap();
  }

  void stream_staged(const Tensor& dst, std::size_t chunk, const Pack& pack) {
    std::size_t turn = 0;
    for (std::size_t at = 0; at < dst.bytes(); at += chunk, ++turn) {
      const std::size_t bytes = std::min(chunk, dst.bytes() - at);
      StagingBuffer& slot = this->slot(turn, chunk);
      pack(slot.bytes().first(bytes), at);
      slot.busy = enqueue_write(dst, at, slot.bytes().first(bytes));
      accept(*health, clFlush(queue), "transfer: clFlush");
    }
    for (std::size_t i = 0; i < staging.size(); ++i) slot(i, 0);  // wait for the last chunks
  }

  // Enqueues the read of the next chunk before the current one is copied out.
  void read_staged(const Tensor& src, std::span<std::byte> out) {
    const auto begin_read = [&](std::size_t turn) {
      const std::size_t at = turn * kChunkBytes;
      StagingBuffer& slot = this->slot(turn, kChunkBytes);
      slot.busy = enqueue_read(src, at, slot.bytes().first(std::min(kChunkBytes, out.size() - at)));
      accept(*health, clFlush(queue), "transfer: clFlush");
    };
    begin_read(0);
    for (std::size_t turn = 0; turn * kChunkBytes < out.size(); ++turn) {
      if ((turn + 1) * kChunkBytes < out.size()) begin_read(turn + 1);
      const std::size_t at = turn * kChunkBytes;
      const std::size_t bytes = std::min(kChunkBytes, out.size() - at);
      std::memcpy(&out[at], slot(turn, 0).bytes().data(), bytes);
    }
  }
};

Transfer::Transfer(cl_context context, cl_command_queue queue, const Device& device,
                   BufferPool& pool, std::shared_ptr<DeviceHealth> health, Profiler* profiler,
                   bool dry_run)
    : state_(new State{context,
                       queue,
                       device.kind == DeviceKind::cpu,
                       &pool,
                       std::move(health),
                       profiler,
                       dry_run,
                       {}}) {}

Transfer::~Transfer() = default;

void Transfer::write(const Tensor& dst, std::span<const std::byte> bytes) {
  state_->health->require_usable("transfer: write");
  if (bytes.empty() || state_->dry_run) return;
  if (state_->is_cpu || bytes.size() < kLargeBytes) {
    state_->finish_or_drain([&] { return state_->enqueue_write(dst, 0, bytes); });
    return;
  }
  state_->stream_staged(dst, kChunkBytes, [&](std::span<std::byte> chunk, std::size_t offset) {
    std::memcpy(chunk.data(), &bytes[offset], chunk.size());
  });
}

void Transfer::read(const Tensor& src, std::span<std::byte> bytes) {
  state_->health->require_usable("transfer: read");
  if (bytes.empty() || state_->dry_run) return;
  if (state_->is_cpu || bytes.size() < kLargeBytes) {
    state_->finish_or_drain([&] { return state_->enqueue_read(src, 0, bytes); });
  } else {
    state_->read_staged(src, bytes);
  }
}

Fence Transfer::write_async(const Tensor& dst, std::span<const std::byte> bytes) {
  state_->health->require_usable("transfer: write");
  return bytes.empty() || state_->dry_run ? Fence() : state_->enqueue_write(dst, 0, bytes);
}

Fence Transfer::read_async(const Tensor& src, std::span<std::byte> bytes) {
  state_->health->require_usable("transfer: read");
  return bytes.empty() || state_->dry_run ? Fence() : state_->enqueue_read(src, 0, bytes);
}

void Transfer::stream(const Tensor& dst, std::size_t grain_bytes, const Pack& pack) {
  state_->health->require_usable("transfer: stream");
  require(!dst.empty() && dst.storage()->buffer != nullptr,
          "transfer: a stream needs a tensor with memory, got {}",
          dst.empty() ? "nothing" : "an unplanned temporary");
  require(grain_bytes > 0 && dst.bytes() % grain_bytes == 0,
          "transfer: {} of {} bytes must be a multiple of the grain size, got {} bytes", dst.text(),
          dst.bytes(), grain_bytes);
  if (dst.bytes() == 0 || state_->dry_run) return;
  const std::size_t chunk = std::max<std::size_t>(kChunkBytes / grain_bytes, 1) * grain_bytes;
  if (state_->is_cpu) {
    state_->stream_in_place(dst, chunk, pack);
  } else {
    state_->stream_staged(dst, chunk, pack);
  }
}

bool Transfer::can_wrap(std::span<const std::byte> bytes, DType type) const noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  return state_->is_cpu && bytes.size() >= kSmallestWrap && address % alignment_of(type) == 0;
}

Tensor Transfer::wrap(std::span<const std::byte> bytes, Shape shape, DType type,
                      std::shared_ptr<const void> owner) {
  if (!can_wrap(bytes, type)) return {};
  std::shared_ptr<const Buffer> buffer;
  try {
    buffer = std::make_shared<const Buffer>(state_->pool->wrap(bytes, std::move(owner)));
  } catch (const Error& error) {
    const int status = error.opencl_status();
    if (refuses_host_memory(status)) return {};
    if (means_no_memory(status)) state_->pool->refuse(bytes.size(), MemoryTag::weights, status);
    throw;
  }
  if (!state_->dry_run) touch(bytes);
  auto storage = std::make_shared<Storage>();
  storage->mem = buffer->handle();
  storage->bytes = bytes.size();
  storage->buffer = std::move(buffer);
  return Tensor(std::move(storage), shape, type);
}

void Transfer::commit(const Buffer& buffer, MemoryTag tag) {
  state_->health->require_usable("transfer: commit");
  if (buffer.is_committed() || state_->dry_run) return;
  cl_int status = state_->fill(buffer);
  if (status != CL_SUCCESS) {
    state_->pool->trim();
    status = state_->fill(buffer);
  }
  if (status != CL_SUCCESS) state_->pool->refuse(buffer.bytes(), tag, status);
  buffer.set_committed();
}

std::size_t Transfer::staging_bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& slot : state_->staging) sum += slot == nullptr ? 0 : slot->bytes().size();
  return sum;
}

void Transfer::trim() noexcept {
  for (auto& slot : state_->staging) slot.reset();
}

}  // namespace clora
