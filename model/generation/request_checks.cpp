#include "model/generation/request_checks.hpp"

#include <cmath>

#include "clora/ops/sample.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::size_t kMaxAdapters = 2;

void check_prompt(const GenerationRequest& request, const RequestLimits& limits) {
  require(!request.prompt.empty(), "generation: the prompt must have at least one token");
  require(
      std::ssize(request.prompt) < limits.longest,
      "generation: the prompt must be shorter than the {} positions of the cache, got {} tokens",
      limits.longest, request.prompt.size());
  for (const std::int32_t id : request.prompt) {
    require(id >= 0 && id < limits.vocabulary, "generation: prompt ids must be in [0, {}), got {}",
            limits.vocabulary, id);
  }
}

void require_in(std::string_view name, double value, double low, double high) {
  require(value >= low && value <= high, "generation: {} must be {} to {}, got {}", name, low, high,
          value);
}

void check_sampling(const SamplingConfig& s, const RequestLimits& limits) {
  require(std::isfinite(s.temperature) && s.temperature >= 0,
          "generation: temperature must be 0 or more, got {}", s.temperature);
  require(s.top_k >= 0, "generation: top_k must be 0 (off) or more, got {}", s.top_k);
  require_in("top_p", s.top_p, 0, 1);
  require_in("min_p", s.min_p, 0, 1);
  require_in("typical_p", s.typical_p, 0, 1);
  require(std::isfinite(s.repetition_penalty) && s.repetition_penalty > 0,
          "generation: repetition_penalty must be above 0, got {}", s.repetition_penalty);
  require(std::isfinite(s.presence_penalty) && std::isfinite(s.frequency_penalty),
          "generation: presence_penalty and frequency_penalty must be finite, got {} and {}",
          s.presence_penalty, s.frequency_penalty);
  require(s.top_logprobs >= 0 && s.top_logprobs <= std::min(kMaxTopLogprobs, limits.vocabulary),
          "generation: top_logprobs must be 0 to {}, got {}",
          std::min(kMaxTopLogprobs, limits.vocabulary), s.top_logprobs);
  require(std::ssize(s.logit_bias) <= kMaxLogitBiases,
          "generation: logit_bias must have at most {} tokens, got {}", kMaxLogitBiases,
          s.logit_bias.size());
  for (const auto& [id, value] : s.logit_bias) {
    require(id >= 0 && id < limits.vocabulary && !std::isnan(value),
            "generation: logit_bias must have ids in [0, {}) and numbers, got {} for {}",
            limits.vocabulary, value, id);
  }
}

}  // namespace

void check_request(const GenerationRequest& request, const RequestLimits& limits) {
  check_prompt(request, limits);
  check_sampling(request.sampling, limits);
  require(request.max_tokens >= 0, "generation: max_tokens must be 0 or more, got {}",
          request.max_tokens);
  const std::int64_t most_logprobs = std::min(kMaxTopLogprobs, limits.vocabulary);
  require(request.prompt_logprobs >= -1 && request.prompt_logprobs <= most_logprobs,
          "generation: prompt_logprobs must be -1 (off) to {}, got {}", most_logprobs,
          request.prompt_logprobs);
  require(request.stop_texts.empty() || limits.has_tokenizer,
          "generation: stop texts require an engine with a tokenizer");
  require(request.adapters.size() <= kMaxAdapters,
          "generation: a request can have at most {} adapters, got {}", kMaxAdapters,
          request.adapters.size());
  require(request.draft_tokens >= 0 && request.draft_tokens <= kMaxDraftTokens,
          "generation: draft_tokens must be 0 (off) to {}, got {}", kMaxDraftTokens,
          request.draft_tokens);
}

}  // namespace clora
