// Scheduler: which sequences run, and which of their positions each step computes.
//
// A step computes one position of every sequence whose prompt is done, and chunks of prompts within
// a budget of tokens. Sequences are admitted in the order of their arrival, if their prompts fit
// the free pages; one whose first tokens an earlier sequence is about to compute waits for these,
// so that they are computed once. If a running sequence needs a page and there is none, the one
// that arrived last gives back its pages and waits again: its keys are computed once more. It has
// no device memory. Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "model/generation/page_pool.hpp"
#include "model/generation/sequence.hpp"

namespace clora {

struct SchedulerConfig {
  std::int64_t max_sequences = 1;  // that run
  std::int64_t max_positions = 1;  // of one sequence
  std::int64_t step_tokens = 1;    // of a step
  // Rows of a step whose logits are computed, if positions of prompts are among them: at most so
  // many, or one more than are drawn.
  std::int64_t outputs = 1;
  bool shares_prefixes = true;
  // Rows for as many tokens of prompts that a step could compute, at most as many: those of a
  // recorded step that it fills well. Null: all of them.
  std::function<std::int64_t(std::int64_t)> prompt_rows = {};
  // Gives the sequence what it needs besides a slot and pages, or returns false: it waits. It is
  // taken back when the sequence stops running.
  std::function<bool(Sequence&)> acquire = {};
  std::function<void(Sequence&)> release = {};
};

// Consecutive positions of a sequence. With drafts, the position that draws the next token, and
// those of guesses of that token and the ones after it.
struct Chunk {
  Sequence* sequence = nullptr;
  std::int64_t begin = 0, count = 0;
  bool draws = false;  // the last position, or with drafts each one, draws a token
  std::vector<std::int32_t> drafts = {};
  // The positions whose logits give the log-probability of the prompt's token after them.
  std::int64_t measured_begin = 0, measured = 0;

  // Tokens that it draws.
  std::int64_t drawn() const { return draws ? 1 + std::ssize(drafts) : 0; }
};

struct StepPlan {
  std::vector<Chunk> decoding, prompts;
  bool empty() const { return decoding.empty() && prompts.empty(); }
};

class Scheduler {
 public:
  Scheduler(const SchedulerConfig& config, PagePool& pages);

  // In the order of arrival.
  const std::vector<std::unique_ptr<Sequence>>& sequences() const noexcept { return sequences_; }
  std::int64_t running() const noexcept;
  std::int64_t waiting() const noexcept;
  std::uint64_t preemptions() const noexcept { return preemptions_; }
  // The longest sequence: what the cache or max_positions allow.
  std::int64_t longest() const noexcept;

  Sequence& add(std::unique_ptr<Sequence> sequence);
  // Removes it.
  void remove(Sequence& sequence);

  // Guesses of the next tokens of a sequence whose tokens are all known; may be null.
  using Drafting = std::function<std::vector<std::int32_t>(const Sequence&)>;
  // The next step, which the caller enqueues; the positions then count as computed (of drafts, only
  // the first one). Nothing if a sequence must give up its pages while a token is pending: the
  // caller reads the pending tokens and calls again.
  std::optional<StepPlan> plan(const Drafting& drafting = {});
  // Declares that a draft's position is computed, since the guess was right.
  void accept_draft(Sequence& sequence) { ++sequence.computed; }

 private:
  // Whether a sequence has its pages; had to stop; or another one must, which has a pending token.
  enum class Pages { given, stopped, pending };

  std::int64_t pages_for(std::int64_t positions) const;
  void stop_running(Sequence& sequence);
  Pages take_pages(Sequence& sequence, std::int64_t positions);
  Sequence& latest_running();
  bool may_draw(const Sequence& sequence) const;
  Chunk decoding_chunk(Sequence& sequence, std::int64_t rows, const Drafting& drafting) const;
  // Returns false if plan() must.
  bool plan_decoding(StepPlan& plan, std::int64_t& rows, const Drafting& drafting);
  void plan_prompts(StepPlan& plan, std::int64_t rows);
  // Positions of a prompt, or of a sequence that is computed again; count may be 0.
  Chunk prompt_chunk(Sequence& sequence, std::int64_t rows) const;
  void limit_outputs(StepPlan& plan) const;
  bool awaits_prefix(const Sequence& waiting) const;
  bool admit(Sequence& sequence);
  bool take_prefix_and_pages(Sequence& sequence);
  void advance(StepPlan& plan);
  void publish(Sequence& sequence);

  SchedulerConfig config_;
  PagePool& pages_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::vector<std::int32_t> free_slots_;
  std::uint64_t preemptions_ = 0;
};

}  // namespace clora
