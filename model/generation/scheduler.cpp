#include "model/generation/scheduler.hpp"

#include <algorithm>
#include <ranges>
#include <span>
#include <utility>

#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

void cut(Chunk& chunk, std::int64_t rows) {
  if (chunk.count <= rows) return;
  chunk.count = rows;
  chunk.draws = false;
}

// Leaves the first `rows` positions.
void trim(std::vector<Chunk>& prompts, std::int64_t rows) {
  for (Chunk& chunk : prompts) {
    cut(chunk, rows);
    rows -= chunk.count;
  }
  std::erase_if(prompts, [](const Chunk& chunk) { return chunk.count == 0; });
}

void measure(Chunk& chunk) {
  Sequence& sequence = *chunk.sequence;
  if (!sequence.measures()) return;
  const std::int64_t end = std::min(chunk.begin + chunk.count, sequence.prompt_tokens() - 1);
  chunk.measured_begin = std::max(chunk.begin, sequence.first_needed());
  chunk.measured = std::max<std::int64_t>(end - chunk.measured_begin, 0);
  sequence.measured += chunk.measured;
}

}  // namespace

Scheduler::Scheduler(const SchedulerConfig& config, PagePool& pages)
    : config_(config), pages_(pages) {
  for (std::int64_t slot = config.max_sequences; slot-- > 0;) {
    free_slots_.push_back(static_cast<std::int32_t>(slot));
  }
}

std::int64_t Scheduler::running() const noexcept {
  return std::ranges::count_if(sequences_, [](const auto& each) { return each->is_running(); });
}

std::int64_t Scheduler::waiting() const noexcept {
  return static_cast<std::int64_t>(sequences_.size()) - running();
}

std::int64_t Scheduler::longest() const noexcept {
  return std::min(config_.max_positions, pages_.pages() * pages_.page_positions());
}

Sequence& Scheduler::add(std::unique_ptr<Sequence> sequence) {
  return *sequences_.emplace_back(std::move(sequence));
}

void Scheduler::remove(Sequence& sequence) {
  if (sequence.is_running()) stop_running(sequence);
  std::erase_if(sequences_, [&](const auto& each) { return each.get() == &sequence; });
}

std::int64_t Scheduler::pages_for(std::int64_t positions) const {
  return divide_up(positions, pages_.page_positions());
}

// A page whose last token was pending in its step may not be published yet. The last pages come
// first, so that they are also the first to be used for something else.
void Scheduler::stop_running(Sequence& sequence) {
  publish(sequence);
  for (const std::int32_t page : std::views::reverse(sequence.pages)) pages_.release(page);
  sequence.pages.clear();
  free_slots_.push_back(std::exchange(sequence.slot, -1));
  sequence.computed = sequence.published = 0;
  sequence.is_prepared = false;
  if (config_.release) config_.release(sequence);
}

Sequence& Scheduler::latest_running() {
  return **std::ranges::find_if(std::views::reverse(sequences_),
                                [](const auto& each) { return each->is_running(); });
}

Scheduler::Pages Scheduler::take_pages(Sequence& sequence, std::int64_t positions) {
  while (std::ssize(sequence.pages) < pages_for(positions)) {
    if (const auto page = pages_.allocate()) {
      sequence.pages.push_back(*page);
      continue;
    }
    Sequence& latest = latest_running();
    if (latest.pending > 0) return Pages::pending;
    stop_running(latest);
    ++preemptions_;
    if (&latest == &sequence) return Pages::stopped;
  }
  return Pages::given;
}

// Whether it needs only its latest position to draw one more token, and may.
bool Scheduler::may_draw(const Sequence& sequence) const {
  return sequence.is_running() && sequence.remaining() == 1 &&
         sequence.drawn() < sequence.request.max_tokens;
}

Chunk Scheduler::decoding_chunk(Sequence& sequence, std::int64_t rows,
                                const Drafting& drafting) const {
  Chunk chunk{
      .sequence = &sequence, .begin = sequence.computed, .count = 1, .draws = true, .drafts = {}};
  if (!drafting || sequence.pending > 0) return chunk;
  chunk.drafts = drafting(sequence);
  const std::int64_t most = std::min({rows, longest() - sequence.computed,
                                      sequence.request.max_tokens - sequence.drawn()}) -
                            1;
  if (std::ssize(chunk.drafts) > most) chunk.drafts.resize(static_cast<std::size_t>(most));
  chunk.count += std::ssize(chunk.drafts);
  return chunk;
}

bool Scheduler::plan_decoding(StepPlan& plan, std::int64_t& rows, const Drafting& drafting) {
  for (const auto& sequence : sequences_) {
    if (rows == 0 || !may_draw(*sequence)) continue;
    Chunk chunk = decoding_chunk(*sequence, rows, drafting);
    const Pages pages = take_pages(*sequence, chunk.begin + chunk.count);
    if (pages == Pages::pending) return false;
    if (pages == Pages::stopped) continue;
    rows -= chunk.count;
    plan.decoding.push_back(std::move(chunk));
  }
  return true;
}

bool Scheduler::take_prefix_and_pages(Sequence& sequence) {
  Digest digest = sequence.adapters.content;
  std::vector<std::int32_t> pages;
  if (config_.shares_prefixes) {
    const auto most = sequence.first_needed() / pages_.page_positions();
    pages = pages_.acquire_prefix(digest, sequence.tokens, static_cast<std::size_t>(most));
  }
  const std::int64_t wanted = pages_for(std::min(sequence.known() + 1, longest()));
  if (wanted - std::ssize(pages) > pages_.available()) {
    for (const std::int32_t page : std::views::reverse(pages)) pages_.release(page);
    return false;
  }
  sequence.pages = std::move(pages);
  sequence.published = std::ssize(sequence.pages);
  sequence.published_digest = digest;
  sequence.computed = sequence.published * pages_.page_positions();
  while (std::ssize(sequence.pages) < wanted) sequence.pages.push_back(*pages_.allocate());
  return true;
}

// Whether a running sequence is about to compute pages of the same first tokens. One whose prompt
// is measured takes many steps for it.
bool Scheduler::awaits_prefix(const Sequence& waiting) const {
  if (!config_.shares_prefixes) return false;
  return std::ranges::any_of(sequences_, [&](const auto& each) {
    if (!each->is_running() || each->remaining() <= 1 || each->measures()) return false;
    if (each->adapters.content != waiting.adapters.content) return false;
    const auto usable =
        std::span(waiting.tokens).first(static_cast<std::size_t>(waiting.first_needed()));
    const auto [end, other] = std::ranges::mismatch(usable, each->tokens);
    return (end - usable.begin()) / pages_.page_positions() > each->published;
  });
}

bool Scheduler::admit(Sequence& sequence) {
  if (free_slots_.empty()) return false;
  if (config_.acquire && !config_.acquire(sequence)) return false;
  if (!take_prefix_and_pages(sequence)) {
    if (config_.release) config_.release(sequence);
    return false;
  }
  if (sequence.known() == sequence.prompt_tokens()) sequence.cached_tokens = sequence.computed;
  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
  return true;
}

void Scheduler::plan_prompts(StepPlan& plan, std::int64_t rows) {
  for (const auto& sequence : sequences_) {
    if (rows == 0) break;
    const bool was_running = sequence->is_running();
    if (!was_running && (awaits_prefix(*sequence) || !admit(*sequence))) break;
    if (was_running && sequence->remaining() <= 1) continue;  // plan_decoding() considered it
    Chunk chunk = prompt_chunk(*sequence, rows);
    if (chunk.count <= 0) continue;
    rows -= chunk.count;
    plan.prompts.push_back(std::move(chunk));
  }
}

Chunk Scheduler::prompt_chunk(Sequence& sequence, std::int64_t rows) const {
  std::int64_t count = sequence.remaining() - (sequence.draws_nothing() ? 1 : 0);
  if (sequence.measures()) {
    count = std::min(count, sequence.first_needed() - sequence.computed + config_.outputs);
  }
  count = std::min(count, rows);
  return {.sequence = &sequence,
          .begin = sequence.computed,
          .count = count,
          .draws = count == sequence.remaining(),
          .drafts = {}};
}

// Prompts whose log-probabilities are wanted share the outputs that draws leave, in the order of
// their arrival.
void Scheduler::limit_outputs(StepPlan& plan) const {
  std::int64_t left = config_.outputs;
  for (const std::vector<Chunk>* chunks : {&plan.decoding, &plan.prompts}) {
    for (const Chunk& chunk : *chunks) left -= chunk.sequence->measures() ? 0 : chunk.drawn();
  }
  left = std::max<std::int64_t>(left, 1);
  for (Chunk& chunk : plan.prompts) {
    if (!chunk.sequence->measures()) continue;
    const std::int64_t before = chunk.sequence->first_needed() - chunk.begin;  // without an output
    cut(chunk, std::max<std::int64_t>(before, 0) + left);
    left -= std::max<std::int64_t>(chunk.count - before, 0);
  }
  std::erase_if(plan.prompts, [](const Chunk& chunk) { return chunk.count == 0; });
}

void Scheduler::publish(Sequence& sequence) {
  if (!config_.shares_prefixes) return;
  const std::int64_t width = pages_.page_positions();
  const std::int64_t full = std::min(sequence.computed, sequence.known()) / width;
  for (; sequence.published < full; ++sequence.published) {
    const auto tokens = std::span(sequence.tokens)
                            .subspan(static_cast<std::size_t>(sequence.published * width),
                                     static_cast<std::size_t>(width));
    sequence.published_digest =
        pages_.publish(sequence.pages[static_cast<std::size_t>(sequence.published)],
                       sequence.published_digest, tokens);
  }
}

void Scheduler::advance(StepPlan& plan) {
  for (std::vector<Chunk>* chunks : {&plan.decoding, &plan.prompts}) {
    for (Chunk& chunk : *chunks) {
      Sequence& sequence = *chunk.sequence;
      measure(chunk);
      sequence.computed += chunk.count - std::ssize(chunk.drafts);
      if (chunk.draws) ++sequence.pending;
      publish(sequence);
    }
  }
}

std::optional<StepPlan> Scheduler::plan(const Drafting& drafting) {
  StepPlan plan;
  std::int64_t rows = config_.step_tokens;
  if (!plan_decoding(plan, rows, drafting)) return {};
  // Sequences that arrived later may have been stopped for the pages of earlier ones.
  std::erase_if(plan.decoding, [](const Chunk& each) { return !each.sequence->is_running(); });
  plan_prompts(plan, rows);
  limit_outputs(plan);
  if (config_.prompt_rows && !plan.prompts.empty()) {
    std::int64_t wanted = 0;
    for (const Chunk& chunk : plan.prompts) wanted += chunk.count;
    trim(plan.prompts, config_.prompt_rows(wanted));
  }
  advance(plan);
  return plan;
}

}  // namespace clora
