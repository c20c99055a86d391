// GenerationRequest: what an Engine generates for one request, and the events that report it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/generation/sampling_config.hpp"
#include "clora/runtime/error.hpp"

namespace clora {

class TokenGrammar;

enum class FinishReason { stop, length, cancelled };
std::string_view name_of(FinishReason reason);

// An adapter of the engine by its name.
struct AdapterUse {
  std::string name;
  double scale = 1;  // of its term, besides alpha / rank
};

inline constexpr std::int64_t kMaxDraftTokens = 16;

struct GenerationRequest {
  std::vector<std::int32_t> prompt = {};  // not empty
  std::int64_t max_tokens = 256;          // lowered to what fits
  SamplingConfig sampling = {};
  // Number of alternatives to report with the log-probability of each token of the prompt but the
  // first, at most 32; -1: none are reported. Such a prompt is computed in full, even if a prefix
  // of it is cached, and in steps of fewer rows, as each takes the memory of a row of logits: at
  // most max_sequences or 8 in a step. With max_tokens 0, nothing else is computed.
  std::int64_t prompt_logprobs = -1;
  std::vector<AdapterUse> adapters = {};             // none, one, or two, whose terms are added
  std::vector<std::int32_t> end_ids = {};            // stop tokens, which are not returned
  std::vector<std::string> stop_texts = {};          // end the reply before the first of them
  std::shared_ptr<const TokenGrammar> grammar = {};  // what the reply must match; or null
  // Most tokens that are guessed from earlier ones and verified in a step; 0: none. The reply is
  // the same.
  std::int64_t draft_tokens = 0;
};

using RequestId = std::uint64_t;

// A token of a reply, or of a prompt whose log-probabilities are requested.
struct GeneratedToken {
  std::int32_t id = 0;
  double logprob = 0;                           // if requested
  std::vector<TokenLogprob> top_logprobs = {};  // if requested
};

// What one step yields for one request. The last event of a request has a finish reason or an
// error.
struct GenerationEvent {
  RequestId request = 0;
  // The next tokens of the prompt, from the second one on, if requested; all of them before the
  // first of the reply.
  std::vector<GeneratedToken> prompt_logprobs = {};
  std::vector<GeneratedToken> tokens = {};
  std::string text = {};  // complete characters that no stop text can remove any more
  std::optional<FinishReason> finish_reason = {};
  std::string error = {};  // what failed, if the request did
  ErrorCode error_code = ErrorCode::device;
  // With the last event.
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompt, whose keys and values were in the cache
  std::int64_t generated_tokens = 0;
  double queue_seconds = 0;  // from its submission to its first step, or to its end without any
};

}  // namespace clora
