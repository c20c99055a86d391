#include "clora/runtime/commands/batch.hpp"

#include "runtime/commands/batch_temporaries.hpp"
#include "runtime/commands/capture.hpp"
#include "runtime/commands/commands.hpp"
#include "runtime/commands/in_flight.hpp"
#include "runtime/fail.hpp"
#include "runtime/memory/host_hold.hpp"

namespace clora {
namespace {

void require_launch(const Launch& launch) {
  require(launch.kernel.program != nullptr, "batch: a launch needs a kernel");
  for (std::size_t d = 0; d < 3; ++d) {
    require(launch.grid.local[d] > 0 && launch.grid.global[d] > 0 &&
                launch.grid.global[d] % launch.grid.local[d] == 0,
            "batch: grid of {} must be a positive multiple of its work-group, got {} with "
            "work-groups of {} in dimension {}",
            launch.kernel.function, launch.grid.global[d], launch.grid.local[d], d);
  }
}

std::string text_of(const Tensor& tensor) { return tensor.empty() ? "nothing" : tensor.text(); }

}  // namespace

std::size_t Arena::bytes() const {
  std::size_t sum = 0;
  for (const auto& chunk : chunks_) sum += chunk == nullptr ? 0 : chunk->bytes();
  return sum;
}

struct Batch::State {
  State(Context& its_context, std::shared_ptr<Arena> its_arena)
      : context(its_context), health(its_context.health()), arena(std::move(its_arena)) {
    if (arena == nullptr) arena = std::make_shared<Arena>();
  }
  ~State();

  Context& context;
  std::shared_ptr<DeviceHealth> health;
  std::shared_ptr<Arena> arena;
  std::vector<Command> preparations;  // run once, before the first submit
  std::vector<Command> commands;
  std::vector<double> seconds;  // estimated device time per command, set by seal()
  BatchTemporaries temporaries;
  std::vector<Fence> marks;              // fences of the last submit
  std::vector<std::size_t> profiled_as;  // profiler number per command; empty if off
  std::vector<std::size_t> pauses;       // the number of commands before each
  std::size_t next = 0;                  // the command with which the next submit begins
  bool sealed = false;
  bool prepared = false;

  void add(Command command);
  void prepare_once();
  void bind_all();
  void estimate_all();
  void announce_to_profiler();
  Work segment_from(std::size_t begin, std::size_t end) const;
  Fence enqueue_segment(std::size_t begin, Work work);
  OwnedEvent enqueue_watched(std::size_t c);
  Fence fence_of(cl_event event) const;
  Fence marker() const;
  std::size_t end_of_part() const;
  Fence enqueue_part(std::span<const cl_event> wait_list);
};

Batch::State::~State() {
  if (!health->stuck()) return;
  for (Command& command : preparations) abandon(command);
  for (Command& command : commands) abandon(command);
}

void Batch::State::add(Command command) {
  require(!sealed, "batch: a sealed batch accepts no commands, got '{}'", label_of(command));
  commands.push_back(std::move(command));
}

void Batch::State::bind_all() {
  for (Command& command : preparations) bind(command, context);
  for (Command& command : commands) bind(command, context);
}

void Batch::State::estimate_all() {
  seconds.clear();  // a failed seal may have left some
  for (const Command& command : commands)
    seconds.push_back(context.in_flight().estimate(cost_of(command)));
}

// Returns as many of the commands [begin, end) as one segment may hold, at least one.
Work Batch::State::segment_from(std::size_t begin, std::size_t end) const {
  const InFlightLedger& in_flight = context.in_flight();
  Work work;
  for (std::size_t c = begin; c < end && !in_flight.fills_segment(work); ++c) {
    ++work.commands;
    work.seconds += seconds[c];
  }
  return work;
}

void Batch::State::announce_to_profiler() {
  profiled_as.clear();  // a failed seal may have left some
  for (const Command& command : commands) {
    profiled_as.push_back(
        context.profiler().op(label_of(command), shape_of(command), cost_of(command)));
  }
}

// Returns a fence with its own reference to `event`.
Fence Batch::State::fence_of(cl_event event) const {
  check_opencl(clRetainEvent(event), "batch: clRetainEvent");
  return Fence(event, health);
}

// Enqueues a command whose event a mark, the profiler or the end of a segment needs. While a
// capture is pending, every command is enqueued here.
OwnedEvent Batch::State::enqueue_watched(std::size_t c) {
  Capture* const capture = context.capture();
  const bool captured = capture != nullptr && capture->takes(commands[c]);
  const bool profiling = context.profiling();
  if (profiling) context.profiler().before_enqueue();
  cl_event created = nullptr;
  enqueue(commands[c], context.opencl_queue(), &created);
  OwnedEvent event(created);
  if (captured) capture->finish();
  const auto* mark = std::get_if<MarkCommand>(&commands[c]);
  if (mark != nullptr) marks[mark->number] = fence_of(created);
  if (profiling) {
    check_opencl(clRetainEvent(created), "batch: clRetainEvent");
    context.profiler().add(profiled_as[c], created);
  }
  return event;
}

Fence Batch::State::enqueue_segment(std::size_t begin, Work work) {
  InFlightLedger& in_flight = context.in_flight();
  in_flight.make_space(work);
  const cl_command_queue queue = context.opencl_queue();
  const bool watch_all = context.profiling() || context.capture() != nullptr;
  const std::size_t last = begin + work.commands - 1;
  for (std::size_t c = begin; c < last; ++c) {
    fetch_ahead(commands[c + 1]);
    if (watch_all || std::holds_alternative<MarkCommand>(commands[c])) {
      (void)enqueue_watched(c);
    } else {
      enqueue(commands[c], queue, nullptr);
    }
  }
  OwnedEvent event = enqueue_watched(last);
  context.flush();
  in_flight.add(work, event.get());
  return Fence(event.release(), health);
}

Fence Batch::State::marker() const {
  cl_event event = nullptr;
  check_opencl(clEnqueueMarkerWithWaitList(context.opencl_queue(), 0, nullptr, &event),
               "batch: clEnqueueMarkerWithWaitList");
  return Fence(event, health);
}

void Batch::State::prepare_once() {
  if (prepared) return;
  for (const Command& command : preparations) enqueue(command, context.opencl_queue(), nullptr);
  prepared = true;
}

// The next pause, or the end of all commands.
std::size_t Batch::State::end_of_part() const {
  const auto pause = std::ranges::upper_bound(pauses, next);
  return pause == pauses.end() ? commands.size() : *pause;
}

Fence Batch::State::enqueue_part(std::span<const cl_event> wait_list) {
  context.wait_for(wait_list);
  prepare_once();
  if (commands.empty() && !wait_list.empty()) return marker();
  const std::size_t end = end_of_part();
  Fence last;
  for (std::size_t c = next; c < end;) {
    const Work work = segment_from(c, end);
    last = enqueue_segment(c, work);
    c += work.commands;
  }
  next = end == commands.size() ? 0 : end;
  return last;
}

Batch::Batch(Context& context, std::shared_ptr<Arena> arena)
    : state_(std::make_unique<State>(context, std::move(arena))) {}

Batch::~Batch() = default;
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;

Context& Batch::context() const noexcept { return state_->context; }
bool Batch::sealed() const noexcept { return state_->sealed; }
std::size_t Batch::commands() const noexcept { return state_->commands.size(); }

Tensor Batch::temporary(Shape shape, DType type, std::string_view name) {
  require(!sealed(), "batch: a sealed batch accepts no temporaries, got '{}'", name);
  return state_->temporaries.add(shape, type, name);
}

void Batch::record(Launch launch, std::vector<Argument> arguments) {
  require_launch(launch);
  state_->add(KernelCommand{std::move(launch), std::move(arguments), nullptr});
}

void Batch::prepare(Launch launch, std::vector<Argument> arguments) {
  require_launch(launch);
  require(!sealed(), "batch: a sealed batch accepts no commands, got '{}'", launch.label);
  state_->preparations.emplace_back(
      KernelCommand{std::move(launch), std::move(arguments), nullptr});
}

void Batch::copy(const Tensor& dst, const Tensor& src) {
  require(!dst.empty() && !src.empty() && dst.bytes() == src.bytes(),
          "batch: a copy needs equal sizes, got {} from {}", text_of(dst), text_of(src));
  state_->add(CopyCommand{dst, src, {}, {}});
}

void Batch::fill_zero(const Tensor& dst) {
  require(!dst.empty(), "batch: a fill needs a tensor, got none");
  state_->add(FillCommand{dst, {}});
}

void Batch::upload(const Tensor& dst, std::span<const std::byte> src) {
  require(!dst.empty() && dst.bytes() == src.size(),
          "batch: an upload needs equal sizes, got {} from {} bytes", text_of(dst), src.size());
  state_->add(UploadCommand{dst, src, {}});
}

std::size_t Batch::mark(std::string_view name) {
  const std::size_t number = state_->marks.size();
  state_->add(MarkCommand{std::string(name), number});
  state_->marks.emplace_back();
  return number;
}

void Batch::pause() {
  (void)mark("pause");
  state_->pauses.push_back(state_->commands.size());
}

void Batch::call(std::string label, std::vector<Tensor> uses, LibraryCall function) {
  for (const Tensor& tensor : uses) {
    require(!tensor.empty(), "batch: call '{}' needs tensors with memory, got an empty one", label);
  }
  state_->add(CallCommand{std::move(label), std::move(uses), std::move(function), {}});
}

void Batch::seal() {
  if (sealed()) return;
  context().health()->require_usable("batch: seal");
  const TraceSpan span(context().trace(), "seal");
  state_->temporaries.place(context(), state_->commands, state_->arena->chunks_);
  if (!context().config().dry_run) state_->bind_all();
  state_->estimate_all();
  if (context().profiling()) state_->announce_to_profiler();
  state_->sealed = true;
}

Fence Batch::submit(std::span<const cl_event> wait_list) {
  context().health()->require_usable("batch: submit");
  seal();
  if (context().config().dry_run) return {};
  const TraceSpan span(context().trace(), "submit");
  try {
    return state_->enqueue_part(wait_list);
  } catch (const Error& error) {
    // Commands already enqueued still use the batch's memory, and the caller may destroy the batch.
    (void)drain_queue(context());
    context().health()->notice(error.opencl_status(), "batch: submit");
    throw;
  } catch (...) {  // an exception from a library call
    (void)drain_queue(context());
    throw;
  }
}

Fence Batch::fence_at(std::size_t mark) const {
  require(mark < state_->marks.size(), "batch: the mark must be below {}, got {}",
          state_->marks.size(), mark);
  const cl_event event = state_->marks[mark].event();
  require(event != nullptr, "batch: a mark has no fence before the first submit");
  return state_->fence_of(event);
}

std::size_t Batch::planned_bytes() const {
  require(sealed(), "batch: the memory plan is available only after seal()");
  return state_->temporaries.planned_bytes();
}

std::size_t Batch::live_bytes() const {
  require(sealed(), "batch: the memory plan is available only after seal()");
  return state_->temporaries.live_bytes(context().device());
}

double Batch::roofline_seconds(const RooflinePeaks& peaks) const {
  double sum = 0;
  for (const Command& command : state_->commands) {
    sum += peaks.launch_seconds + clora::roofline_seconds(cost_of(command), peaks);
  }
  return sum;
}

std::string Batch::plan_text() const {
  require(sealed(), "batch: the memory plan is available only after seal()");
  return state_->temporaries.text();
}

std::string Batch::launches_text() const {
  std::string text;
  for (const Command& command : state_->commands) {
    const auto* launched = std::get_if<KernelCommand>(&command);
    if (launched != nullptr) text += launch_text(*launched, state_->context) + '\n';
  }
  return text;
}

}  // namespace clora
