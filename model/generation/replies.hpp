// Replies: the replies of all requests of an engine, from their arrival until they end, and the
// events that report them.
//
// A request that ends, whatever the reason, is removed from the scheduler. Threads: one at a time.
// Must not outlive the stages, the configuration or the scheduler.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "clora/model/generation/engine.hpp"
#include "model/generation/reply_state.hpp"
#include "model/generation/scheduler.hpp"

namespace clora {

class Replies {
 public:
  Replies(const std::vector<ModelStage>& stages, const EngineConfig& config, Scheduler& scheduler)
      : stages_(stages), config_(config), scheduler_(scheduler) {}

  // A request arrives; it ends at once if it wants no tokens, and no log-probabilities of a prompt
  // of two or more.
  void add(Sequence& sequence);
  // Reports the log-probabilities of the prompt's next tokens, or ends the request by them. Returns
  // whether it has ended.
  bool report_prompt(Sequence& sequence, std::span<const GeneratedToken> tokens);
  // Appends a drawn token to the sequence and its reply, or ends the request by it. Returns whether
  // it has ended. The id may be one of the negative values of ops/sample.hpp.
  bool accept(Sequence& sequence, const GeneratedToken& token);
  // End the request; the sequence is destroyed.
  void finish(Sequence& sequence, FinishReason reason);
  void fail_request(Sequence& sequence, const Error& error);

  // ReplyState::write_mask() of a request.
  bool write_mask(const Sequence& sequence, std::span<std::uint32_t> mask);

  bool has_events() const noexcept { return !events_.empty(); }
  // Returns those since the last call.
  std::vector<GenerationEvent> take_events();
  // Sets the counts of tokens of prompts, of ended requests, and of generated tokens.
  void count(EngineStatistics& statistics) const;

 private:
  GenerationEvent& event_of(RequestId id);
  Error error_of(const Sequence& sequence, std::int32_t id) const;
  Error error_of_logit(std::int64_t position, std::string_view otherwise) const;

  const std::vector<ModelStage>& stages_;
  const EngineConfig& config_;
  Scheduler& scheduler_;
  std::map<RequestId, ReplyState> states_;
  std::vector<GenerationEvent> events_;
  std::uint64_t prompt_tokens_ = 0, cached_prompt_tokens_ = 0, generated_tokens_ = 0;
};

}  // namespace clora
