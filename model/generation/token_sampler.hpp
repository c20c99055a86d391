// TokenSampler: draws the tokens of a step on the device and brings them to the host, with
// log-probabilities, also those of the tokens of prompts. What the draws need of each sequence
// besides the logits is on the device, in the sequence's slot.
//
// Threads: one at a time. Must not outlive the PagedForward.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "clora/ops/sample.hpp"
#include "model/generation/step_layout.hpp"
#include "runtime/memory/pinned_memory.hpp"

namespace clora {

class TokenSampler {
 public:
  TokenSampler(LanguageModel& model, PagedForward& forward);

  // Writes the state of a sequence to its slot. To be called when it begins to run; no token may be
  // pending.
  void set_sequence(const Sequence& sequence);

  // Writes which tokens a sequence may draw (SampleState::mask), or returns false: all.
  using WriteMask = std::function<bool(const Sequence&, std::span<std::uint32_t>)>;
  // Enqueues the draws from the logits of the step, which is enqueued, and their transfer to the
  // host. REQUIRES: at most two steps are drawn and not read.
  void draw(const StepLayout& layout, const WriteMask& write_mask = {});
  // Waits for the first step that is drawn and not read. Returns one token for each of its outputs,
  // drawn or of a prompt. The id of a drawn one may be one of the negative values of
  // ops/sample.hpp; the log-probability of another one is NaN if a logit is NaN or infinite.
  std::vector<GeneratedToken> read();
  // Drops what is drawn and not read.
  void forget() { read_ = drawn_; }

 private:
  // What decides which batch draws a step.
  struct Form {
    std::int64_t outputs = 0;
    bool uses_state = false;         // penalties, biases or masks
    std::int64_t top_logprobs = -1;  // -1: no log-probabilities
    bool measures = false;           // tokens of prompts
    auto operator<=>(const Form&) const = default;
  };
  struct Recorded {
    explicit Recorded(Batch b) : batch(std::move(b)) {}
    Batch batch;
    Tensor tokens, settings, mask, logprob, top_ids, top_logprobs;
    // Tokens of prompts; and the row itself if its token is drawn, else -1.
    Tensor targets, sources;
  };
  // Host memory of a step, from draw() until read().
  struct Transfer {
    std::unique_ptr<PinnedMemory> memory;
    Form form;
    struct Output {
      std::int64_t top_logprobs = -1;  // -1: no log-probability
      std::int32_t target = -1;
    };
    std::vector<Output> outputs;
    Fence fence;
  };

  Form form_of(const StepLayout& layout) const;
  Recorded& recorded(const Form& form);
  SampleState state(const Form& form);
  void allocate_state();
  void write_settings(const StepLayout& layout, std::span<SampleSettings> rows) const;
  void write_targets(const StepLayout& layout, const Recorded& recorded, const Transfer& transfer);
  void write_masks(const Tensor& mask, const StepLayout& layout, const WriteMask& write_mask,
                   std::span<SampleSettings> rows);
  void enqueue_reads(Transfer& transfer, const Recorded& recorded);

  LanguageModel& model_;
  PagedForward& forward_;
  Context& context_;
  // Of all slots, allocated when first needed.
  Tensor counts_, bias_ids_, bias_values_;
  std::map<Form, Recorded> recorded_;
  std::array<Transfer, 2> transfers_;
  std::size_t drawn_ = 0, read_ = 0;
};

}  // namespace clora
