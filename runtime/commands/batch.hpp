// Batch: a list of device commands, recorded once and submitted once or replayed many times.
//
// Recording chooses kernels and stores arguments; nothing runs. seal() (or the first submit())
// plans the memory of the temporaries and binds the arguments of each launch to its own kernel
// object. After that, submit() only enqueues: it sets no argument and allocates no memory.
//
// A Batch keeps every tensor that it uses alive. It must not outlive its Context.
// Threads: one at a time. Commands run in recording order, on the Context's in-order queue.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "clora/runtime/commands/fence.hpp"
#include "clora/runtime/context.hpp"
#include "clora/runtime/memory/memory_plan.hpp"

namespace clora {

// Work-items in total and per work-group. REQUIRES: global is a multiple of local in each
// dimension.
struct Grid {
  std::array<std::size_t, 3> global{1, 1, 1};
  std::array<std::size_t, 3> local{1, 1, 1};
};

// A grid of x * y * z work-groups of one work-item each, as kernels for CPU devices use it.
inline Grid single_item_groups(std::size_t x, std::size_t y = 1, std::size_t z = 1) {
  return {{x, y, z}, {1, 1, 1}};
}

// A kernel argument in local memory.
struct LocalMemory {
  std::size_t bytes = 0;
};

// A value of any other type, in the layout that the kernel expects: a half, a float4, a struct.
struct ValueBytes {
  std::vector<std::byte> bytes;
};

// A struct as an argument. REQUIRES: the kernel's type has the same layout; a struct of members of
// four bytes has it on every device.
template <class Struct>
ValueBytes by_value(const Struct& value) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {{bytes.begin(), bytes.end()}};
}

using Argument = std::variant<Tensor, LocalMemory, std::int32_t, std::uint32_t, std::int64_t,
                              std::uint64_t, float, ValueBytes>;

struct Launch {
  Kernel kernel;
  Grid grid;
  Cost cost;          // from the op's xxx_cost()
  std::string label;  // in profiles: "rms_norm/forward"
  // Tensors that the kernel accesses through addresses stored in memory instead of arguments. On
  // NVIDIA's driver each memory argument adds 0.3 to 0.5 us to a launch; a scalar argument adds
  // nothing.
  std::vector<Tensor> uses = {};
};

// Device memory that several batches share for their temporaries. In-order execution makes the
// sharing safe. The arena grows to the largest plan; a batch that was sealed earlier keeps the
// blocks it was given.
class Arena {
 public:
  std::size_t bytes() const;

 private:
  friend class Batch;
  std::vector<std::shared_ptr<const Buffer>> chunks_;
};

// The location of a tensor's bytes, for library calls.
struct MemoryRegion {
  cl_mem mem = nullptr;
  std::size_t offset_bytes = 0;
};

class Batch {
 public:
  // arena: null for a private one.
  explicit Batch(Context& context, std::shared_ptr<Arena> arena = nullptr);
  ~Batch();
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  Context& context() const noexcept;

  // A tensor that lives from the first to the last command that uses it; its contents are undefined
  // before. REQUIRES (this and all recording below): not sealed.
  Tensor temporary(Shape shape, DType type, std::string_view name);

  // Records one kernel with its arguments in order.
  template <class... Args>
  void launch(Launch launch, Args&&... arguments) {
    record(std::move(launch), std::vector<Argument>{Argument(std::forward<Args>(arguments))...});
  }
  void record(Launch launch, std::vector<Argument> arguments);
  // Records a launch that runs once, before the commands of the first submit. It is for data that
  // depends on the addresses of tensors and not on their contents, such as descriptors with device
  // addresses. REQUIRES: its output is not a temporary of this batch, and it does not read its
  // other arguments.
  void prepare(Launch launch, std::vector<Argument> arguments);
  // dst = src. REQUIRES: equal bytes.
  void copy(const Tensor& dst, const Tensor& src);
  // Sets every byte of dst to 0. Not for temporaries, which may be placed in a range that GPU
  // drivers fill incorrectly (enqueue_zeros in runtime/device/opencl.hpp); use record_zero_words of
  // ops/hopper/tensor_maps.hpp for those.
  // Errors, when the batch is sealed: unsupported, if dst is in that range.
  void fill_zero(const Tensor& dst);
  // dst = the bytes of `src` at the time of the submit. `src` must stay valid and unchanged until
  // the fence of that submit has passed. REQUIRES: equal bytes.
  void upload(const Tensor& dst, std::span<const std::byte> src);
  // Records a named point. It appears in traces, and a fence for it is available after each
  // submit(). Returns the number that fence_at() takes.
  std::size_t mark(std::string_view name);
  // Divides the commands: submit() enqueues those up to the next pause, the submit() after it goes
  // on there, and after the last part it begins again with the first. Temporaries live across a
  // pause: other work may be enqueued meanwhile, but no batch that shares the arena. Traces show it
  // as a mark.
  void pause();
  // Records a call that enqueues to the Context's queue itself, for library routines. `uses` are
  // the tensors that it accesses; each submit passes their locations to the call in that order.
  using LibraryCall = std::function<void(cl_command_queue, std::span<const MemoryRegion>)>;
  void call(std::string label, std::vector<Tensor> uses, LibraryCall function);

  // Plans memory and binds arguments. Errors: out_of_memory, device, build_failed.
  void seal();
  bool sealed() const noexcept;
  // Enqueues every command, up to the next pause if there are any, and flushes. It waits only if
  // more work is in flight than the Context's configuration allows, and then only for the oldest
  // work. Seals first if the batch is not sealed. wait_list: foreign events that all commands wait
  // for. After an error, some commands may be enqueued and their outputs are undefined; nothing
  // that the batch uses is freed before they are done. Errors: device, device_lost.
  Fence submit(std::span<const cl_event> wait_list = {});
  // A fence for the mark in the last submit(). REQUIRES: mark() returned this number, and the batch
  // was submitted at least once.
  Fence fence_at(std::size_t mark) const;

  std::size_t commands() const noexcept;
  // The bytes that the temporaries take in the arena, and the minimum that any plan could take.
  // REQUIRES: sealed.
  std::size_t planned_bytes() const;
  std::size_t live_bytes() const;
  // The minimum time that one submit takes on a device with these peaks: that of the costs of all
  // commands, with the cost of launching them. REQUIRES: peaks.known().
  double roofline_seconds(const RooflinePeaks& peaks) const;
  // One line per temporary: name, bytes, lifetime, location. REQUIRES: sealed.
  std::string plan_text() const;
  // One line per kernel launch: file, function, options, grid, and its arguments, tensors by their
  // shapes. Equal for two batches that do the same work in the same way on other memory.
  std::string launches_text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace clora
