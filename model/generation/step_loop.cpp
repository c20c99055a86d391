#include "model/generation/step_loop.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "model/generation/engine_sizes.hpp"
#include "model/generation/largest_steps.hpp"
#include "model/generation/prompt_lookup.hpp"
#include "runtime/elapsed.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// A step takes longer than this if a grid barrier fails (cl/grid_barrier*.clh).
constexpr double kLateSeconds = 0.5;

}  // namespace

StepLoop::StepLoop(std::span<const ModelStage> stages, const EngineConfig& config)
    : stages_(stages.begin(), stages.end()),
      config_(config),
      has_states_(clora::has_states(model_config())),
      adapters_(stages, {.slots = config.device_adapters, .max_rank = config.max_rank}),
      forward_(stages, forward_configs(stages, config, adapters_)),
      pages_(forward_.config().pages, kPagePositions),
      sampler_(*stages.back().model, forward_.last()),
      rules_(shape_rules(stages)),
      scheduler_({.max_sequences = has_states_ ? 1 : config.max_sequences,
                  .max_positions = config.max_positions,
                  .step_tokens = config.step_tokens,
                  .outputs = outputs_of(has_states_ ? 1 : config.max_sequences),
                  .shares_prefixes = shares_prefixes(),
                  .prompt_rows = [this](std::int64_t rows) { return rules_.prompt_rows(rows); },
                  .acquire = [this](Sequence& sequence) { return acquire_adapters(sequence); },
                  .release = [this](Sequence& sequence) { release_adapters(sequence); }},
                 pages_),
      replies_(stages_, config_, scheduler_) {}

void StepLoop::record_largest_steps() {
  EngineConfig config = config_;
  if (has_states_) config.max_sequences = 1;
  const bool adapted = !adapters_.names().empty();
  for (const StepShape& shape : largest_steps(config, rules_, adapted)) forward_.record(shape);
}

bool StepLoop::acquire_adapters(Sequence& sequence) {
  const std::optional<AdapterSlot> slot = adapters_.acquire(sequence.adapters);
  if (slot) sequence.adapter = *slot;
  return slot.has_value();
}

void StepLoop::release_adapters(Sequence& sequence) {
  adapters_.release(std::exchange(sequence.adapter, {}));
}

Sequence* StepLoop::find_sequence(RequestId request) const {
  const auto found = std::ranges::find_if(scheduler_.sequences(),
                                          [&](const auto& each) { return each->id == request; });
  return found == scheduler_.sequences().end() ? nullptr : found->get();
}

const Sequence* StepLoop::find(RequestId request) const { return find_sequence(request); }

void StepLoop::add(std::unique_ptr<Sequence> sequence) {
  // The base adapter may have been trained between requests.
  if (scheduler_.sequences().empty()) forward_.update_scales();
  replies_.add(scheduler_.add(std::move(sequence)));
}

void StepLoop::cancel(RequestId request) {
  if (Sequence* sequence = find_sequence(request)) {
    replies_.finish(*sequence, FinishReason::cancelled);
  }
}

// Whether the next step is enqueued before the tokens of the previous one are read: otherwise a GPU
// would idle while the host processes them. The rows of a sequence that turns out to have ended
// have no effect. With several devices a step begins from tokens that the host has read, since the
// embeddings are not on the device that draws.
bool StepLoop::runs_ahead() const {
  return stages_.size() == 1 && stages_.front().model->context().device().kind == DeviceKind::gpu &&
         std::ranges::none_of(scheduler_.sequences(), [](const auto& each) {
           return each->request.grammar != nullptr || each->request.draft_tokens > 0;
         });
}

std::optional<StepPlan> StepLoop::plan() {
  return scheduler_.plan([](const Sequence& sequence) {
    if (has_penalties(sequence.request.sampling) || sequence.request.grammar != nullptr) {
      return std::vector<std::int32_t>();
    }
    return look_up_continuation(sequence.tokens, sequence.request.draft_tokens);
  });
}

void StepLoop::prepare_slots(const StepPlan& plan) {
  for (const std::vector<Chunk>* chunks : {&plan.decoding, &plan.prompts}) {
    for (const Chunk& chunk : *chunks) {
      Sequence& sequence = *chunk.sequence;
      if (!std::exchange(sequence.is_prepared, true)) sampler_.set_sequence(sequence);
      if (!sequence.started) sequence.started = std::chrono::steady_clock::now();
    }
  }
}

void StepLoop::enqueue(const StepPlan& plan) {
  const StepLayout layout(plan, rules_);
  prepare_slots(plan);
  ++steps_;
  layout.fill(forward_.begin(layout.shape()), kPagePositions);
  forward_.submit(layout.shape());
  InFlight step{.shape = layout.shape(), .parts = {}};
  for (const Chunk* chunk : layout.chunks_with_outputs()) {
    step.parts.push_back({chunk->sequence->id, chunk->measured, chunk->draws, chunk->drafts});
    draft_tokens_ += chunk->drafts.size();
  }
  if (!step.parts.empty()) {
    sampler_.draw(layout, [this](const Sequence& sequence, std::span<std::uint32_t> mask) {
      return replies_.write_mask(sequence, mask);
    });
    in_flight_.push_back(std::move(step));
  }
}

void StepLoop::check_late_step(const StepShape& shape, double seconds) const {
  // A failed barrier has waited for seconds, and reading its flag costs a GPU a tenth of a step.
  if (seconds <= kLateSeconds) return;
  const std::optional<std::size_t> stage = forward_.gave_up(shape);
  if (!stage) return;
  const Device& device = stages_[*stage].model->context().device();
  fail(ErrorCode::device,
       "generator: the {} work-groups of a decoding step on '{}' did not run concurrently within "
       "a few seconds; give the process more CPU time or use the variant cpu, which does not "
       "require this",
       device.compute_units, device.name);
}

// Reads the oldest step in flight.
void StepLoop::collect() {
  const InFlight step = std::move(in_flight_.front());
  in_flight_.erase(in_flight_.begin());
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<GeneratedToken> tokens = sampler_.read();
  check_late_step(step.shape, seconds_since(begin));
  std::span<const GeneratedToken> left(tokens);
  const auto take = [&](std::size_t count) {
    const std::span<const GeneratedToken> taken = left.first(count);
    left = left.subspan(count);
    return taken;
  };
  for (const InFlight::Part& part : step.parts) {
    const auto measured = take(static_cast<std::size_t>(part.measured));
    const auto drawn = take(part.draws ? part.drafts.size() + 1 : 0);
    Sequence* sequence = find_sequence(part.request);
    if (sequence == nullptr || replies_.report_prompt(*sequence, measured) || !part.draws) continue;
    --sequence->pending;
    accept(*sequence, drawn, part.drafts);
  }
}

// The first token counts; each later one if the guess before it, which it follows, was right.
void StepLoop::accept(Sequence& sequence, std::span<const GeneratedToken> tokens,
                      std::span<const std::int32_t> drafts) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (replies_.accept(sequence, tokens[i])) return;
    if (i == drafts.size() || drafts[i] != tokens[i].id) return;
    scheduler_.accept_draft(sequence);
    ++accepted_draft_tokens_;
  }
}

void StepLoop::step() {
  const bool ahead = runs_ahead();
  if (!ahead) drain();
  std::optional<StepPlan> next = plan();
  while (!next) {  // a sequence with a pending token must give up its pages
    collect();
    next = plan();
  }
  const std::size_t before = in_flight_.size();
  if (!next->empty()) enqueue(*next);
  for (std::size_t i = 0; i < before; ++i) collect();
}

void StepLoop::drain() {
  while (!in_flight_.empty()) collect();
}

void StepLoop::lose_all(const Error& error) {
  in_flight_.clear();
  sampler_.forget();
  while (!scheduler_.sequences().empty()) {
    replies_.fail_request(*scheduler_.sequences().front(), error);
  }
  pages_.forget_prefixes();
}

bool StepLoop::is_idle() const {
  return scheduler_.sequences().empty() && in_flight_.empty() && !replies_.has_events();
}

EngineStatistics StepLoop::statistics() const {
  EngineStatistics now;
  replies_.count(now);
  now.running = scheduler_.running();
  now.waiting = scheduler_.waiting();
  now.pages = pages_.pages();
  now.used_pages = pages_.pages() - pages_.available();
  now.cached_pages = pages_.cached();
  now.draft_tokens = draft_tokens_;
  now.accepted_draft_tokens = accepted_draft_tokens_;
  now.preemptions = scheduler_.preemptions();
  now.steps = steps_;
  for (const ModelStage& stage : stages_) {
    now.memory_bytes += stage.model->context().pool().in_use_bytes();
  }
  return now;
}

}  // namespace clora
