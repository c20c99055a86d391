#include "clora/model/generation/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include "clora/model/generation/grammar/token_grammar.hpp"
#include "model/generation/adapter_slots.hpp"
#include "model/generation/engine_sizes.hpp"
#include "model/generation/largest_steps.hpp"
#include "model/generation/prompt_lookup.hpp"
#include "model/generation/reply_text.hpp"
#include "model/generation/request_checks.hpp"
#include "model/generation/scheduler.hpp"
#include "model/generation/step_layout.hpp"
#include "model/generation/token_sampler.hpp"
#include "model/transformer/finite_check.hpp"
#include "model/transformer/paged_forward.hpp"
#include "runtime/elapsed.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// A step takes longer than this if a grid barrier fails (cl/grid_barrier*.clh).
constexpr double kLateSeconds = 0.5;

}  // namespace

// What the engine keeps of a request besides its sequence.
struct Reply {
  Reply(const Tokenizer* tokenizer, const GenerationRequest& request)
      : text(tokenizer, request.stop_texts) {
    if (request.grammar) grammar.emplace(request.grammar, request.end_ids);
  }
  ReplyText text;
  std::optional<GrammarState> grammar;
  std::optional<Error> grammar_error;

  // Goes on by a token; false if the grammar cannot, which is then the error.
  bool follows_grammar(std::int32_t id) {
    if (!grammar) return true;
    try {
      grammar->accept(id);
    } catch (const Error& error) {
      grammar_error = error;
    }
    return !grammar_error;
  }
};

struct Engine::Impl {
  Impl(LanguageModel& m, const EngineConfig& c);

  void step();
  void take_commands();
  bool runs_ahead() const;
  std::optional<StepPlan> plan();
  void enqueue(const StepPlan& plan);
  void collect();
  void check_late_step(const StepShape& shape, double seconds) const;
  void report_prompt(Sequence& sequence, std::span<const GeneratedToken> tokens);
  void accept(Sequence& sequence, std::span<const GeneratedToken> tokens,
              std::span<const std::int32_t> drafts);
  bool accept_one(Sequence& sequence, const GeneratedToken& token);
  Error error_of(const Sequence& sequence, std::int32_t id) const;
  Error error_of_logit(std::int64_t position, std::string_view otherwise) const;
  GenerationEvent& event_of(RequestId id);
  void finish(Sequence& sequence, FinishReason reason);
  void fail_request(Sequence& sequence, const Error& error);
  void lose_all(const Error& error);
  bool write_mask(const Sequence& sequence, std::span<std::uint32_t> mask);
  bool acquire_adapters(Sequence& sequence);
  void release_adapters(Sequence& sequence);
  Sequence* find(RequestId id) const;
  void count();

  LanguageModel& model;
  EngineConfig config;
  Context& context;
  bool has_states;
  AdapterSlots adapters;
  PagedForward forward;
  PagePool pages;
  TokenSampler sampler;
  ShapeRules rules;
  Scheduler scheduler;
  std::map<RequestId, Reply> replies;
  std::vector<GenerationEvent> events;
  // The steps that are enqueued and not read, at most two, oldest first: the requests that have
  // outputs, with the tokens of the prompt that are measured, and the guesses that a draw verifies.
  struct InFlight {
    StepShape shape;
    struct Part {
      RequestId request;
      std::int64_t measured = 0;
      bool draws = false;
      std::vector<std::int32_t> drafts = {};
    };
    std::vector<Part> parts;
  };
  std::vector<InFlight> in_flight;
  EngineStatistics counters;  // without what the scheduler and the pages say

  mutable std::mutex mutex;  // of what follows
  std::vector<std::unique_ptr<Sequence>> submitted;
  std::vector<RequestId> cancelled;
  RequestId next_id = 1;
  EngineStatistics statistics;  // after the last step
};

Engine::Impl::Impl(LanguageModel& m, const EngineConfig& c)
    : model(m),
      config(c),
      context(m.context()),
      has_states(clora::has_states(m.config())),
      adapters(
          m, {.slots = c.device_adapters, .max_rank = c.max_rank, .base_adapter = c.base_adapter}),
      forward(m, forward_config(context, c, adapters.stacks())),
      pages(forward.config().pages, kPagePositions),
      sampler(m, forward),
      rules(shape_rules(context, m.config())),
      scheduler({.max_sequences = has_states ? 1 : c.max_sequences,
                 .max_positions = c.max_positions,
                 .step_tokens = c.step_tokens,
                 .outputs = outputs_of(has_states ? 1 : c.max_sequences),
                 .shares_prefixes = c.shares_prefixes && !has_states,
                 .prompt_rows = [this](std::int64_t rows) { return rules.prompt_rows(rows); },
                 .acquire = [this](Sequence& sequence) { return acquire_adapters(sequence); },
                 .release = [this](Sequence& sequence) { release_adapters(sequence); }},
                pages) {}

Sequence* Engine::Impl::find(RequestId id) const {
  const auto found =
      std::ranges::find_if(scheduler.sequences(), [&](const auto& each) { return each->id == id; });
  return found == scheduler.sequences().end() ? nullptr : found->get();
}

// The request's event of this call, which is new if it has none yet.
GenerationEvent& Engine::Impl::event_of(RequestId id) {
  const auto found = std::ranges::find(events, id, &GenerationEvent::request);
  if (found != events.end()) return *found;
  return events.emplace_back(GenerationEvent{.request = id});
}

void Engine::Impl::finish(Sequence& sequence, FinishReason reason) {
  GenerationEvent& event = event_of(sequence.id);
  event.text += replies.at(sequence.id).text.finish();
  event.finish_reason = reason;
  event.prompt_tokens = sequence.prompt_tokens();
  event.cached_tokens = sequence.cached_tokens;
  event.generated_tokens = sequence.known() - sequence.prompt_tokens();
  counters.prompt_tokens += static_cast<std::uint64_t>(sequence.prompt_tokens());
  counters.cached_prompt_tokens += static_cast<std::uint64_t>(sequence.cached_tokens);
  replies.erase(sequence.id);
  scheduler.remove(sequence);
}

void Engine::Impl::fail_request(Sequence& sequence, const Error& error) {
  GenerationEvent& event = event_of(sequence.id);
  event.error = error.what();
  event.error_code = error.code();
  replies.erase(sequence.id);
  scheduler.remove(sequence);
}

void Engine::Impl::take_commands() {
  std::vector<std::unique_ptr<Sequence>> arrived;
  std::vector<RequestId> ended;
  {
    const std::lock_guard lock(mutex);
    arrived.swap(submitted);
    ended.swap(cancelled);
  }
  for (std::unique_ptr<Sequence>& each : arrived) {
    Sequence& sequence = scheduler.add(std::move(each));
    replies.emplace(sequence.id, Reply(config.tokenizer, sequence.request));
    if (sequence.draws_nothing() && !sequence.measures()) finish(sequence, FinishReason::length);
  }
  for (const RequestId id : ended) {
    if (Sequence* sequence = find(id)) finish(*sequence, FinishReason::cancelled);
  }
}

// Whether the next step is enqueued before the tokens of the previous one are read: otherwise a GPU
// would idle while the host processes them. The rows of a sequence that turns out to have ended
// have no effect.
bool Engine::Impl::runs_ahead() const {
  return context.device().kind == DeviceKind::gpu &&
         std::ranges::none_of(scheduler.sequences(), [](const auto& each) {
           return each->request.grammar != nullptr || each->request.draft_tokens > 0;
         });
}

std::optional<StepPlan> Engine::Impl::plan() {
  return scheduler.plan([](const Sequence& sequence) {
    if (has_penalties(sequence.request.sampling) || sequence.request.grammar != nullptr) {
      return std::vector<std::int32_t>();
    }
    return look_up_continuation(sequence.tokens, sequence.request.draft_tokens);
  });
}

void Engine::Impl::enqueue(const StepPlan& plan) {
  const StepLayout layout(plan, rules);
  for (const std::vector<Chunk>* chunks : {&plan.decoding, &plan.prompts}) {
    for (const Chunk& chunk : *chunks) {
      Sequence& sequence = *chunk.sequence;
      if (!std::exchange(sequence.is_prepared, true)) sampler.set_sequence(sequence);
    }
  }
  ++counters.steps;
  layout.fill(forward.begin(layout.shape()), kPagePositions);
  forward.submit(layout.shape());
  InFlight step{.shape = layout.shape(), .parts = {}};
  for (const Chunk* chunk : layout.chunks_with_outputs()) {
    step.parts.push_back({chunk->sequence->id, chunk->measured, chunk->draws, chunk->drafts});
    counters.draft_tokens += chunk->drafts.size();
  }
  if (!step.parts.empty()) {
    sampler.draw(layout, [this](const Sequence& sequence, std::span<std::uint32_t> mask) {
      return write_mask(sequence, mask);
    });
    in_flight.push_back(std::move(step));
  }
}

// If the grammar cannot go on, the mask allows nothing, and the draw fails with its error.
bool Engine::Impl::write_mask(const Sequence& sequence, std::span<std::uint32_t> mask) {
  Reply& reply = replies.at(sequence.id);
  if (!reply.grammar) return false;
  try {
    reply.grammar->write_mask(mask);
  } catch (const Error& error) {
    reply.grammar_error = error;
    std::ranges::fill(mask, 0U);
  }
  return true;
}

void Engine::Impl::check_late_step(const StepShape& shape, double seconds) const {
  // A failed barrier has waited for seconds, and reading its flag costs a GPU a tenth of a step.
  if (seconds <= kLateSeconds || !forward.gave_up(shape)) return;
  fail(ErrorCode::device,
       "generator: the {} work-groups of a decoding step on '{}' did not run concurrently within "
       "a few seconds; give the process more CPU time or use the variant cpu, which does not "
       "require this",
       context.device().compute_units, context.device().name);
}

// Reads the oldest step in flight.
void Engine::Impl::collect() {
  const InFlight step = std::move(in_flight.front());
  in_flight.erase(in_flight.begin());
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<GeneratedToken> tokens = sampler.read();
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
    if (Sequence* sequence = find(part.request)) report_prompt(*sequence, measured);
    Sequence* sequence = find(part.request);  // unless that has ended it
    if (sequence == nullptr || !part.draws) continue;
    --sequence->pending;
    accept(*sequence, drawn, part.drafts);
  }
}

void Engine::Impl::report_prompt(Sequence& sequence, std::span<const GeneratedToken> tokens) {
  if (tokens.empty()) return;
  for (const GeneratedToken& token : tokens) {
    if (!std::isfinite(token.logprob)) {
      const std::int64_t position = sequence.reported;
      fail_request(sequence, error_of_logit(position,
                                            "every weight is finite; activations are too "
                                            "large for 32-bit floats"));
      return;
    }
    event_of(sequence.id).prompt_logprobs.push_back(token);
    ++sequence.reported;
  }
  const bool all = sequence.reported == sequence.prompt_tokens();
  if (all && sequence.draws_nothing()) finish(sequence, FinishReason::length);
}

// The first token counts; each later one if the guess before it, which it follows, was right.
void Engine::Impl::accept(Sequence& sequence, std::span<const GeneratedToken> tokens,
                          std::span<const std::int32_t> drafts) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (accept_one(sequence, tokens[i])) return;
    if (i == drafts.size() || drafts[i] != tokens[i].id) return;
    scheduler.accept_draft(sequence);
    ++counters.accepted_draft_tokens;
  }
}

// Returns whether the reply has ended.
bool Engine::Impl::accept_one(Sequence& sequence, const GeneratedToken& token) {
  if (token.id < 0) {
    fail_request(sequence, error_of(sequence, token.id));
    return true;
  }
  const GenerationRequest& request = sequence.request;
  Reply& reply = replies.at(sequence.id);
  if (std::ranges::find(request.end_ids, token.id) != request.end_ids.end()) {
    finish(sequence, FinishReason::stop);
    return true;
  }
  sequence.tokens.push_back(token.id);
  ++counters.generated_tokens;
  if (!reply.follows_grammar(token.id)) {
    fail_request(sequence, *reply.grammar_error);
    return true;
  }
  GenerationEvent& event = event_of(sequence.id);
  event.tokens.push_back(token);
  event.text += reply.text.push(token.id);
  if (reply.text.stopped() || (reply.grammar && reply.grammar->must_end())) {
    finish(sequence, FinishReason::stop);
  } else if (sequence.known() - sequence.prompt_tokens() >= request.max_tokens) {
    finish(sequence, FinishReason::length);
  } else {
    return false;
  }
  return true;
}

Error Engine::Impl::error_of(const Sequence& sequence, std::int32_t id) const {
  if (const auto& error = replies.at(sequence.id).grammar_error) return *error;
  if (id != kNoToken) {
    return {ErrorCode::invalid_argument,
            fmt::format("generation: biases and grammar allow no token at position {}",
                        sequence.known())};
  }
  return error_of_logit(sequence.known(),
                        "every weight is finite; activations are too large for 32-bit floats, or "
                        "the repetition penalty is too close to 0");
}

Error Engine::Impl::error_of_logit(std::int64_t position, std::string_view otherwise) const {
  try {
    fail_not_finite(fmt::format("generation: a logit of the token at position {}", position), model,
                    config.base_adapter, otherwise);
  } catch (const Error& error) {
    return error;
  }
}

void Engine::Impl::step() {
  take_commands();
  const bool ahead = runs_ahead();
  while (!ahead && !in_flight.empty()) collect();
  std::optional<StepPlan> next = plan();
  while (!next) {  // a sequence with a pending token must give up its pages
    collect();
    next = plan();
  }
  const std::size_t before = in_flight.size();
  if (!next->empty()) enqueue(*next);
  for (std::size_t i = 0; i < before; ++i) collect();
}

// After an error of the device.
void Engine::Impl::lose_all(const Error& error) {
  in_flight.clear();
  sampler.forget();
  while (!scheduler.sequences().empty()) fail_request(*scheduler.sequences().front(), error);
  pages.forget_prefixes();
}

bool Engine::Impl::acquire_adapters(Sequence& sequence) {
  const std::optional<AdapterSlot> slot = adapters.acquire(sequence.adapters);
  if (slot) sequence.adapter = *slot;
  return slot.has_value();
}

void Engine::Impl::release_adapters(Sequence& sequence) {
  adapters.release(std::exchange(sequence.adapter, {}));
}

void Engine::Impl::count() {
  EngineStatistics now = counters;
  now.running = scheduler.running();
  now.waiting = scheduler.waiting();
  now.pages = pages.pages();
  now.used_pages = pages.pages() - pages.available();
  now.cached_pages = pages.cached();
  now.preemptions = scheduler.preemptions();
  const std::lock_guard lock(mutex);
  statistics = now;
}

Engine::Engine(LanguageModel& model, const EngineConfig& config) {
  (void)model.head();  // an encoder has none
  require(config.max_sequences >= 1 && config.max_positions >= 1,
          "engine: max_sequences and max_positions must be 1 or more, got {} and {}",
          config.max_sequences, config.max_positions);
  require(config.step_tokens >= config.max_sequences,
          "engine: step_tokens must be at least max_sequences, {}, got {}", config.max_sequences,
          config.step_tokens);
  impl_ = std::make_unique<Impl>(model, config);
}

Engine::~Engine() = default;

const EngineConfig& Engine::config() const noexcept { return impl_->config; }

void Engine::prepare() {
  require(is_idle(), "engine: prepare() is for an engine without requests");
  EngineConfig config = impl_->config;
  if (impl_->has_states) config.max_sequences = 1;
  const bool adapted = !impl_->adapters.names().empty();
  for (const StepShape& shape : largest_steps(config, impl_->rules, adapted)) {
    impl_->forward.record(shape);
  }
}

void Engine::add_adapter(const std::string& name, const Adapter& adapter) {
  impl_->adapters.add(name, adapter);
}

void Engine::remove_adapter(const std::string& name) { impl_->adapters.remove(name); }

std::vector<std::string> Engine::adapter_names() const { return impl_->adapters.names(); }

RequestId Engine::submit(GenerationRequest request) {
  Impl& impl = *impl_;
  check_request(request, {.vocabulary = impl.model.config().vocabulary,
                          .longest = impl.scheduler.longest(),
                          .has_tokenizer = impl.config.tokenizer != nullptr});
  auto sequence = std::make_unique<Sequence>();
  sequence->request = std::move(request);
  sequence->tokens = sequence->request.prompt;
  sequence->adapters = impl.adapters.select(sequence->request.adapters);
  std::int64_t& most = sequence->request.max_tokens;
  most = std::min(most, impl.scheduler.longest() - sequence->prompt_tokens());
  const std::lock_guard lock(impl.mutex);
  sequence->id = impl.next_id++;
  return impl.submitted.emplace_back(std::move(sequence))->id;
}

void Engine::cancel(RequestId request) {
  const std::lock_guard lock(impl_->mutex);
  impl_->cancelled.push_back(request);
}

std::vector<GenerationEvent> Engine::step() {
  try {
    impl_->step();
  } catch (const Error& error) {
    impl_->lose_all(error);
    throw;
  }
  impl_->count();
  return std::exchange(impl_->events, {});
}

std::int64_t Engine::computed_positions(RequestId request) const {
  const Sequence* sequence = impl_->find(request);
  return sequence == nullptr ? 0 : sequence->computed;
}

std::vector<float> Engine::logits(std::span<const std::int32_t> prompt) {
  require(is_idle(), "engine: logits() is for an engine without requests");
  submit({.prompt = {prompt.begin(), prompt.end()}, .max_tokens = 1});
  while (!is_idle()) {
    for (const GenerationEvent& event : step()) {
      if (!event.error.empty()) throw Error(event.error_code, event.error);
    }
  }
  return impl_->context.read<float>(impl_->forward.logits(1));
}

bool Engine::is_idle() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->submitted.empty() && impl_->scheduler.sequences().empty() &&
         impl_->in_flight.empty() && impl_->events.empty();
}

EngineStatistics Engine::statistics() const {
  const std::lock_guard lock(impl_->mutex);
  EngineStatistics statistics = impl_->statistics;
  statistics.waiting += std::ssize(impl_->submitted);
  return statistics;
}

}  // namespace clora
