// SamplingConfig: how the next token of one sequence is drawn from its logits (ops/sample.hpp has
// the formulas and their order).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace clora {

struct SamplingConfig {
  double temperature = 0;  // 0: greedy
  std::int64_t top_k = 0;  // 0: off
  double top_p = 1;        // 1: off
  double min_p = 0;        // 0: off
  double typical_p = 1;    // 1: off
  // Of tokens in the prompt or the reply: divides positive logits, multiplies negative ones.
  double repetition_penalty = 1;
  // Of tokens in the reply: subtracted once, and once for each occurrence (OpenAI).
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::vector<std::pair<std::int32_t, float>> logit_bias = {};  // added to the logit of an id
  std::uint32_t seed = 0;
  bool logprobs = false;          // report the log-probability of each token
  std::int64_t top_logprobs = 0;  // number of alternatives to report, at most 32
};

inline constexpr std::int64_t kMaxLogitBiases = 1024;  // of one request

// Whether the draw of a token depends on the ones before it.
inline bool has_penalties(const SamplingConfig& s) {
  return s.repetition_penalty != 1 || s.presence_penalty != 0 || s.frequency_penalty != 0;
}

struct TokenLogprob {
  std::int32_t id = 0;
  double logprob = 0;
};

}  // namespace clora
