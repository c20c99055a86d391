// Batch: a row of device commands, recorded once and submitted once or replayed many times.
//
// Recording chooses kernels and remembers arguments; nothing runs. seal() (or the first submit())
// plans the memory of the temporaries and binds every argument to a kernel object of its own. From
// then on submit() only enqueues: it touches no argument and allocates no memory.
//
// A Batch keeps every tensor that it uses alive. It must not outlive its Context.
// Threads: one at a time. Commands run in the order of recording, on the Context's in-order queue.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/context.hpp"
#include "runtime/fence.hpp"
#include "runtime/memory_plan.hpp"

namespace clora {

// Work-items in all and in a work-group. REQUIRES: global is a multiple of local in each dimension.
struct Grid {
  std::array<std::size_t, 3> global{1, 1, 1};
  std::array<std::size_t, 3> local{1, 1, 1};
};

// `groups` work-groups of one work-item each: the shape of kernels for CPU devices.
inline Grid single_item_groups(std::size_t x, std::size_t y = 1, std::size_t z = 1) {
  return {{x, y, z}, {1, 1, 1}};
}

// A kernel argument in local memory.
struct LocalMemory {
  std::size_t bytes = 0;
};

// A value of any other type, as the kernel takes it: a half, a float4, a struct.
struct ValueBytes {
  std::vector<std::byte> bytes;
};

using Argument = std::variant<Tensor, LocalMemory, std::int32_t, std::uint32_t, std::int64_t,
                              std::uint64_t, float, ValueBytes>;

struct Launch {
  Kernel kernel;
  Grid grid;
  Cost cost;          // from the op's xxx_cost()
  std::string label;  // in profiles: "rms_norm/forward"
  // Tensors that the kernel reaches by addresses in memory, not by arguments. On NVIDIA's driver an
  // argument that is memory costs a launch 0.3 to 0.5 us, a number nothing.
  std::vector<Tensor> uses = {};
};

// Device memory that several batches use in turn for their temporaries. In-order execution makes
// that safe. It grows to the largest plan; a batch sealed earlier keeps the blocks that it was
// given.
class Arena {
 public:
  std::size_t bytes() const;

 private:
  friend class Batch;
  std::vector<std::shared_ptr<const Buffer>> chunks_;
};

// A tensor's bytes, for library calls.
struct MemoryRegion {
  cl_mem mem = nullptr;
  std::size_t offset_bytes = 0;
};

class Batch {
 public:
  // arena: null for one of its own.
  explicit Batch(Context& context, std::shared_ptr<Arena> arena = nullptr);
  ~Batch();
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  Context& context() const noexcept;

  // A tensor that lives from the first to the last command that uses it; contents undefined before.
  // REQUIRES (this and all recording below): not sealed.
  Tensor temporary(Shape shape, DType type, std::string_view name);

  // Records one kernel with its arguments in order.
  template <class... Args>
  void launch(Launch launch, Args&&... arguments) {
    record(std::move(launch), std::vector<Argument>{Argument(std::forward<Args>(arguments))...});
  }
  void record(Launch launch, std::vector<Argument> arguments);
  // Records a launch that runs once, before the first submit's commands: for what depends on where
  // tensors lie and not on what they hold, such as descriptors with device addresses. What it
  // writes must be no temporary of this batch; what else it is given, it may not read.
  void prepare(Launch launch, std::vector<Argument> arguments);
  // dst = src. REQUIRES: equal bytes.
  void copy(const Tensor& dst, const Tensor& src);
  // Every byte of dst = 0. Not for temporaries, which may lie where drivers for GPUs fill wrongly
  // (enqueue_zeros in runtime/opencl.hpp): record_zero_words of ops/tensor_maps.hpp.
  // Errors, when the batch is sealed: unsupported, where dst lies so.
  void fill_zero(const Tensor& dst);
  // dst = the bytes of `src` as they are when the batch is submitted. `src` must stay valid and
  // unchanged until the fence of that submit has passed. REQUIRES: equal bytes.
  void upload(const Tensor& dst, std::span<const std::byte> src);
  // A named point: it shows in traces, and fences of it can be had after each submit().
  // The number that fence_at() takes.
  std::size_t mark(std::string_view name);
  // Records a call that enqueues to the Context's queue by itself, for library routines. `uses` are
  // the tensors it touches; the call gets their places in that order, at every submit.
  using LibraryCall = std::function<void(cl_command_queue, std::span<const MemoryRegion>)>;
  void call(std::string label, std::vector<Tensor> uses, LibraryCall function);

  // Plans memory and binds arguments. Errors: out_of_memory, device, build_failed.
  void seal();
  bool sealed() const noexcept;
  // Enqueues every command and flushes; does not wait, unless more is in flight than the Context's
  // configuration allows: then for the oldest of it. Seals first where that was not done.
  // wait_list: foreign events that all commands wait for. An error leaves some commands enqueued
  // and what they write undefined; nothing that the batch uses is freed before they are done.
  // Errors: device, device_lost.
  Fence submit(std::span<const cl_event> wait_list = {});
  // The mark's point in the last submit(). REQUIRES: mark() gave this number, submitted once.
  Fence fence_at(std::size_t mark) const;

  std::size_t commands() const noexcept;
  // Bytes that the temporaries take in the arena, and the least that any plan could take.
  // REQUIRES: sealed.
  std::size_t planned_bytes() const;
  std::size_t live_bytes() const;
  // One line a temporary: name, bytes, lifetime, place. REQUIRES: sealed.
  std::string plan_text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace clora
