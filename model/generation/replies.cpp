#include "model/generation/replies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "clora/ops/sample.hpp"
#include "model/transformer/finite_check.hpp"
#include "runtime/fail.hpp"

namespace clora {

// The request's event since take_events(), which is new if it has none yet.
GenerationEvent& Replies::event_of(RequestId id) {
  const auto found = std::ranges::find(events_, id, &GenerationEvent::request);
  if (found != events_.end()) return *found;
  return events_.emplace_back(GenerationEvent{.request = id});
}

std::vector<GenerationEvent> Replies::take_events() { return std::exchange(events_, {}); }

void Replies::count(EngineStatistics& statistics) const {
  statistics.prompt_tokens = prompt_tokens_;
  statistics.cached_prompt_tokens = cached_prompt_tokens_;
  statistics.generated_tokens = generated_tokens_;
}

void Replies::add(Sequence& sequence) {
  states_.emplace(sequence.id, ReplyState(config_.tokenizer, sequence.request));
  if (sequence.draws_nothing() && !sequence.measures()) finish(sequence, FinishReason::length);
}

void Replies::finish(Sequence& sequence, FinishReason reason) {
  GenerationEvent& event = event_of(sequence.id);
  event.text += states_.at(sequence.id).finish();
  event.finish_reason = reason;
  event.prompt_tokens = sequence.prompt_tokens();
  event.cached_tokens = sequence.cached_tokens;
  event.generated_tokens = sequence.known() - sequence.prompt_tokens();
  const auto started = sequence.started.value_or(std::chrono::steady_clock::now());
  event.queue_seconds = std::chrono::duration<double>(started - sequence.submitted).count();
  prompt_tokens_ += static_cast<std::uint64_t>(sequence.prompt_tokens());
  cached_prompt_tokens_ += static_cast<std::uint64_t>(sequence.cached_tokens);
  states_.erase(sequence.id);
  scheduler_.remove(sequence);
}

void Replies::fail_request(Sequence& sequence, const Error& error) {
  GenerationEvent& event = event_of(sequence.id);
  event.error = error.what();
  event.error_code = error.code();
  states_.erase(sequence.id);
  scheduler_.remove(sequence);
}

bool Replies::write_mask(const Sequence& sequence, std::span<std::uint32_t> mask) {
  return states_.at(sequence.id).write_mask(mask);
}

bool Replies::report_prompt(Sequence& sequence, std::span<const GeneratedToken> tokens) {
  if (tokens.empty()) return false;
  for (const GeneratedToken& token : tokens) {
    if (!std::isfinite(token.logprob)) {
      fail_request(sequence, error_of_logit(sequence.reported,
                                            "every weight is finite; activations are too "
                                            "large for 32-bit floats"));
      return true;
    }
    event_of(sequence.id).prompt_logprobs.push_back(token);
    ++sequence.reported;
  }
  const bool ends = sequence.draws_nothing() && sequence.reported == sequence.prompt_tokens();
  if (ends) finish(sequence, FinishReason::length);
  return ends;
}

bool Replies::accept(Sequence& sequence, const GeneratedToken& token) {
  if (token.id < 0) {
    fail_request(sequence, error_of(sequence, token.id));
    return true;
  }
  const GenerationRequest& request = sequence.request;
  ReplyState& state = states_.at(sequence.id);
  if (std::ranges::find(request.end_ids, token.id) != request.end_ids.end()) {
    finish(sequence, FinishReason::stop);
    return true;
  }
  sequence.tokens.push_back(token.id);
  ++generated_tokens_;
  if (!state.follow_grammar(token.id)) {
    fail_request(sequence, *state.grammar_error());
    return true;
  }
  GenerationEvent& event = event_of(sequence.id);
  event.tokens.push_back(token);
  event.text += state.push(token.id);
  if (state.must_end()) {
    finish(sequence, FinishReason::stop);
  } else if (sequence.known() - sequence.prompt_tokens() >= request.max_tokens) {
    finish(sequence, FinishReason::length);
  } else {
    return false;
  }
  return true;
}

Error Replies::error_of(const Sequence& sequence, std::int32_t id) const {
  if (const auto& error = states_.at(sequence.id).grammar_error()) return *error;
  if (id != kNoToken) {
    return {ErrorCode::invalid_argument,
            fmt::format("generation: biases and grammar allow no token at position {}",
                        sequence.known())};
  }
  return error_of_logit(sequence.known(),
                        "every weight is finite; activations are too large for 32-bit floats, or "
                        "the repetition penalty is too close to 0");
}

Error Replies::error_of_logit(std::int64_t position, std::string_view otherwise) const {
  const std::string logit =
      fmt::format("generation: a logit of the token at position {}", position);
  std::optional<Error> found;
  for (const ModelStage& stage : stages_) {
    try {
      fail_not_finite(logit, *stage.model, stage.adapter, otherwise);
    } catch (const Error& error) {
      found = error;
    }
    if (found->code() != ErrorCode::diverged) break;
  }
  return *found;
}

}  // namespace clora
