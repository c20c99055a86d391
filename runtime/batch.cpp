#include "runtime/batch.hpp"

#include <algorithm>
#include <unordered_map>

#include "runtime/opencl.hpp"
#include "runtime/program.hpp"

namespace clora {
namespace {

struct KernelCommand {
  Launch launch;
  std::vector<Argument> arguments;
  OwnedKernel kernel;  // bound at seal
};

struct CopyCommand {
  Tensor dst;
  Tensor src;
};

struct FillCommand {
  Tensor dst;
};

struct CallCommand {
  std::string label;
  std::vector<Tensor> uses;
  Batch::LibraryCall function;
  std::vector<MemoryRegion> regions;  // bound at seal
};

using Command = std::variant<KernelCommand, CopyCommand, FillCommand, CallCommand>;

// Calls f(tensor) for every tensor that the command uses.
template <class F>
void for_each_tensor(const Command& command, F f) {
  if (const auto* kernel = std::get_if<KernelCommand>(&command)) {
    for (const Argument& argument : kernel->arguments) {
      if (const auto* tensor = std::get_if<Tensor>(&argument)) f(*tensor);
    }
  } else if (const auto* copy = std::get_if<CopyCommand>(&command)) {
    f(copy->dst);
    f(copy->src);
  } else if (const auto* fill = std::get_if<FillCommand>(&command)) {
    f(fill->dst);
  } else {
    for (const Tensor& tensor : std::get<CallCommand>(command).uses) f(tensor);
  }
}

MemoryRegion region_of(const Tensor& tensor) {
  return {tensor.storage()->mem, tensor.storage()->origin + tensor.offset_bytes()};
}

// A cl_mem that begins where the tensor does.
cl_mem argument_of(const Tensor& tensor, const Device& device) {
  if (tensor.empty()) return nullptr;
  const MemoryRegion region = region_of(tensor);
  require(region.offset_bytes % device.base_alignment_bytes == 0,
          "batch: a view must begin at a multiple of {} bytes to be a kernel's argument, {} begins "
          "at {}",
          device.base_alignment_bytes, tensor.text(), region.offset_bytes);
  return tensor.storage()->buffer->part(region.offset_bytes,
                                        std::max<std::size_t>(tensor.bytes(), 1));
}

// What an op's tensors look like in profiles: the first arguments, outputs first by convention.
// Types are told where they are not f32.
std::string shape_text(const std::vector<Argument>& arguments) {
  constexpr int kTensorsTold = 3;
  std::string text;
  int told = 0;
  for (const Argument& argument : arguments) {
    const auto* tensor = std::get_if<Tensor>(&argument);
    if (tensor == nullptr || tensor->empty() || told == kTensorsTold) continue;
    const std::string_view type = tensor->type() == DType::f32 ? "" : name_of(tensor->type());
    text += fmt::format("{}{}{}", told++ == 0 ? "" : " ", type, tensor->shape().text());
  }
  return text;
}

// The command's number in the profiler.
std::size_t number_of(const Command& command, Profiler& profiler) {
  if (const auto* kernel = std::get_if<KernelCommand>(&command)) {
    const Launch& launch = kernel->launch;
    return profiler.op(launch.label.empty() ? launch.kernel.function : launch.label,
                       shape_text(kernel->arguments), launch.cost);
  }
  if (const auto* copy = std::get_if<CopyCommand>(&command)) {
    return profiler.op("copy", copy->dst.shape().text(),
                       {0, 2.0 * static_cast<double>(copy->dst.bytes())});
  }
  if (const auto* fill = std::get_if<FillCommand>(&command)) {
    return profiler.op("fill", fill->dst.shape().text(),
                       {0, static_cast<double>(fill->dst.bytes())});
  }
  return profiler.op(std::get<CallCommand>(command).label, "", {});
}

}  // namespace

std::size_t Arena::bytes() const {
  std::size_t sum = 0;
  for (const auto& chunk : chunks_) sum += chunk->bytes();
  return sum;
}

struct Batch::State {
  Context* context = nullptr;
  std::shared_ptr<Arena> arena;
  std::vector<Command> commands;
  std::vector<std::shared_ptr<Storage>> temporaries;
  std::vector<Lifetime> lifetimes;  // of the temporaries, filled at seal
  MemoryPlan plan;
  std::vector<std::size_t>
      profiled_as;  // a command's number in the profiler; empty where it is off
  bool sealed = false;

  void find_lifetimes();
  void place_temporaries();
  void bind(KernelCommand& command);
  void bind_all();
  void enqueue(const Command& command, cl_event* event) const;
  void announce_to_profiler();
};

void Batch::State::find_lifetimes() {
  std::unordered_map<const Storage*, std::size_t> index;
  lifetimes.resize(temporaries.size());
  for (std::size_t i = 0; i < temporaries.size(); ++i) {
    index[temporaries[i].get()] = i;
    lifetimes[i] = {temporaries[i]->bytes, commands.size(), 0};
  }
  for (std::size_t c = 0; c < commands.size(); ++c) {
    for_each_tensor(commands[c], [&](const Tensor& tensor) {
      const auto found = index.find(tensor.storage().get());
      if (found == index.end()) return;
      Lifetime& lifetime = lifetimes[found->second];
      lifetime.first = std::min(lifetime.first, c);
      lifetime.last = std::max(lifetime.last, c);
    });
  }
  // A temporary that no command uses: it lives nowhere, at command 0 only.
  for (Lifetime& lifetime : lifetimes) lifetime.first = std::min(lifetime.first, lifetime.last);
}

void Batch::State::place_temporaries() {
  const Device& device = context->device();
  plan = plan_memory(lifetimes, device.base_alignment_bytes, device.max_allocation_bytes);
  auto& chunks = arena->chunks_;
  for (std::size_t c = 0; c < plan.chunk_bytes.size(); ++c) {
    if (c < chunks.size() && chunks[c]->bytes() >= plan.chunk_bytes[c]) continue;
    if (c < chunks.size()) chunks[c].reset();  // give the smaller block back before taking more
    auto block = std::make_shared<const Buffer>(
        context->pool().allocate(plan.chunk_bytes[c], MemoryTag::activations));
    if (c < chunks.size()) {
      chunks[c] = std::move(block);
    } else {
      chunks.push_back(std::move(block));
    }
  }
  for (std::size_t i = 0; i < temporaries.size(); ++i) {
    const Place place = plan.places[i];
    temporaries[i]->buffer = chunks[place.chunk];
    temporaries[i]->mem = chunks[place.chunk]->handle();
    temporaries[i]->origin = place.offset;
  }
}

void Batch::State::bind(KernelCommand& command) {
  const Kernel& kernel = command.launch.kernel;
  cl_int status = CL_SUCCESS;
  command.kernel.reset(clCreateKernel(kernel.program->handle(), kernel.function.c_str(), &status));
  check_opencl(status, fmt::format("batch: clCreateKernel({})", kernel.function));
  for (std::size_t i = 0; i < command.arguments.size(); ++i) {
    status = std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          const auto n = static_cast<cl_uint>(i);
          if constexpr (std::is_same_v<T, Tensor>) {
            const cl_mem mem = argument_of(value, context->device());
            return clSetKernelArg(command.kernel.get(), n, sizeof mem, &mem);
          } else if constexpr (std::is_same_v<T, LocalMemory>) {
            return clSetKernelArg(command.kernel.get(), n, value.bytes, nullptr);
          } else {
            return clSetKernelArg(command.kernel.get(), n, sizeof value, &value);
          }
        },
        command.arguments[i]);
    check_opencl(status, fmt::format("batch: argument {} of kernel {}", i, kernel.function));
  }
}

void Batch::State::bind_all() {
  for (Command& command : commands) {
    if (auto* kernel = std::get_if<KernelCommand>(&command)) {
      bind(*kernel);
    } else if (auto* call = std::get_if<CallCommand>(&command)) {
      for (const Tensor& tensor : call->uses) call->regions.push_back(region_of(tensor));
    }
  }
}

void Batch::State::enqueue(const Command& command, cl_event* event) const {
  const cl_command_queue queue = context->opencl_queue();
  if (const auto* kernel = std::get_if<KernelCommand>(&command)) {
    const Grid& grid = kernel->launch.grid;
    const cl_int status =
        clEnqueueNDRangeKernel(queue, kernel->kernel.get(), 3, nullptr, grid.global.data(),
                               grid.local.data(), 0, nullptr, event);
    if (status != CL_SUCCESS) {
      check_opencl(status, fmt::format("batch: enqueue of {} ({})", kernel->launch.kernel.function,
                                       kernel->launch.label));
    }
  } else if (const auto* copy = std::get_if<CopyCommand>(&command)) {
    const MemoryRegion src = region_of(copy->src);
    const MemoryRegion dst = region_of(copy->dst);
    check_opencl(clEnqueueCopyBuffer(queue, src.mem, dst.mem, src.offset_bytes, dst.offset_bytes,
                                     copy->dst.bytes(), 0, nullptr, event),
                 "batch: clEnqueueCopyBuffer");
  } else if (const auto* fill = std::get_if<FillCommand>(&command)) {
    const MemoryRegion dst = region_of(fill->dst);
    const unsigned char zero = 0;
    check_opencl(clEnqueueFillBuffer(queue, dst.mem, &zero, 1, dst.offset_bytes, fill->dst.bytes(),
                                     0, nullptr, event),
                 "batch: clEnqueueFillBuffer");
  } else {
    const auto& call = std::get<CallCommand>(command);
    call.function(queue, call.regions);
    if (event != nullptr) {
      check_opencl(clEnqueueMarkerWithWaitList(queue, 0, nullptr, event),
                   "batch: clEnqueueMarkerWithWaitList");
    }
  }
}

void Batch::State::announce_to_profiler() {
  for (const Command& command : commands) {
    profiled_as.push_back(number_of(command, context->profiler()));
  }
}

Batch::Batch(Context& context, std::shared_ptr<Arena> arena) : state_(std::make_unique<State>()) {
  state_->context = &context;
  state_->arena = arena == nullptr ? std::make_shared<Arena>() : std::move(arena);
}

Batch::~Batch() = default;
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;

Context& Batch::context() const noexcept { return *state_->context; }
bool Batch::sealed() const noexcept { return state_->sealed; }
std::size_t Batch::commands() const noexcept { return state_->commands.size(); }

Tensor Batch::temporary(Shape shape, DType type, std::string_view name) {
  require(!sealed(), "batch: a sealed batch takes no temporary ('{}')", name);
  auto storage = std::make_shared<Storage>();
  storage->bytes = bytes_of(type, static_cast<std::size_t>(shape.elements()));
  storage->name = name;
  state_->temporaries.push_back(storage);
  return Tensor(std::move(storage), shape, type);
}

void Batch::record(Launch launch, std::vector<Argument> arguments) {
  require(!sealed(), "batch: a sealed batch takes no command ('{}')", launch.kernel.function);
  require(launch.kernel.program != nullptr, "batch: a launch needs a kernel");
  for (std::size_t d = 0; d < 3; ++d) {
    require(launch.grid.local[d] > 0 && launch.grid.global[d] > 0 &&
                launch.grid.global[d] % launch.grid.local[d] == 0,
            "batch: grid of {} must be a positive multiple of its work-group, got {} by {} in "
            "dimension {}",
            launch.kernel.function, launch.grid.global[d], launch.grid.local[d], d);
  }
  state_->commands.emplace_back(KernelCommand{std::move(launch), std::move(arguments), nullptr});
}

void Batch::copy(const Tensor& dst, const Tensor& src) {
  require(!sealed(), "batch: a sealed batch takes no copy");
  require(!dst.empty() && !src.empty() && dst.bytes() == src.bytes(),
          "batch: a copy needs equal sizes, got {} from {}", dst.text(), src.text());
  state_->commands.emplace_back(CopyCommand{dst, src});
}

void Batch::fill_zero(const Tensor& dst) {
  require(!sealed() && !dst.empty(), "batch: a fill needs a tensor and a batch not yet sealed");
  state_->commands.emplace_back(FillCommand{dst});
}

void Batch::call(std::string label, std::vector<Tensor> uses, LibraryCall function) {
  require(!sealed(), "batch: a sealed batch takes no call ('{}')", label);
  state_->commands.emplace_back(
      CallCommand{std::move(label), std::move(uses), std::move(function), {}});
}

void Batch::seal() {
  if (sealed()) return;
  const TraceSpan span(context().trace(), "seal");
  state_->find_lifetimes();
  state_->place_temporaries();
  state_->bind_all();
  if (context().profiling()) state_->announce_to_profiler();
  state_->sealed = true;
}

Fence Batch::submit(std::span<const cl_event> wait_list) {
  seal();
  const TraceSpan span(context().trace(), "submit");
  context().wait_for(wait_list);
  const auto& commands = state_->commands;
  cl_event last = nullptr;
  for (std::size_t c = 0; c < commands.size(); ++c) {
    const bool is_last = c + 1 == commands.size();
    cl_event event = nullptr;
    const bool wants_event = is_last || context().profiling();
    if (context().profiling()) context().profiler().before_enqueue();
    state_->enqueue(commands[c], wants_event ? &event : nullptr);
    if (is_last) last = event;
    if (context().profiling()) {
      if (is_last) check_opencl(clRetainEvent(event), "batch: clRetainEvent");
      context().profiler().add(state_->profiled_as[c], event);
    }
  }
  context().flush();
  return Fence(last);
}

std::size_t Batch::planned_bytes() const {
  require(sealed(), "batch: the plan is known once the batch is sealed");
  std::size_t sum = 0;
  for (const std::size_t bytes : state_->plan.chunk_bytes) sum += bytes;
  return sum;
}

std::size_t Batch::live_bytes() const {
  require(sealed(), "batch: the plan is known once the batch is sealed");
  return peak_live_bytes(state_->lifetimes, context().device().base_alignment_bytes);
}

std::string Batch::plan_text() const {
  require(sealed(), "batch: the plan is known once the batch is sealed");
  std::string text;
  for (std::size_t i = 0; i < state_->temporaries.size(); ++i) {
    const Lifetime& life = state_->lifetimes[i];
    const Place& place = state_->plan.places[i];
    text += fmt::format("{:<24} {:>12} bytes, commands {:>5} to {:>5}, block {} at {}\n",
                        state_->temporaries[i]->name, life.bytes, life.first, life.last,
                        place.chunk, place.offset);
  }
  return text;
}

}  // namespace clora
