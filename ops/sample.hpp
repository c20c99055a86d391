// sample: the next token from logits, on the device; only ids (and log-probabilities) are read
// back.
//
// Order: repetition penalty (Keskar et al., 2019: a seen token's logit is divided by the penalty if
// positive, multiplied if negative), temperature, top-k, top-p (Holtzman et al., 2020), min-p
// (relative to the most likely token), then a draw with the counter-based random number of (seed,
// step). If temperature is 0 or less: the largest logit; the lowest id among equals.
//
// Every filter keeps a prefix of the tokens by rank: the more likely first, the lower id first
// among equals. top-p keeps the shortest prefix whose share of the mass left by top-k reaches
// top_p, and at least one token. The random number is the upper 24 bits of the first word of
// Philox2x32 with 10 rounds (Salmon et al., 2011), key seed, counter (step, 0); the token drawn is
// the first, in order of ids, at which the running sum of probabilities exceeds it.
//
// If a logit is NaN or infinite, no choice is possible: the token is -1 (kNoToken).
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// Returned instead of a token if the logits, after the repetition penalty, are not all finite.
inline constexpr std::int32_t kNoToken = -1;

// On the device it is 8 words in this order (floats and integers by their bits).
struct SampleSettings {
  float temperature = 0;
  std::int32_t top_k = 0;        // 0: off
  float top_p = 1;               // 1: off
  float min_p = 0;               // 0: off
  float repetition_penalty = 1;  // 1: off; above 0
  std::uint32_t seed = 0;
  std::uint32_t step = 0;  // number of the token drawn: read and incremented by the op
  std::uint32_t unused = 0;
};
static_assert(sizeof(SampleSettings) == 8 * sizeof(float));

// Overwrites token [1] i32; sets seen [V] u8 to 1 at the token, unless it is kNoToken; increments
// step in settings (u32 [8]). logits [V] f32 are not changed.
void record_sample(Batch& batch, const Tensor& token, const Tensor& seen, const Tensor& settings,
                   const Tensor& logits);

// The model's own distribution, before penalty, temperature and filters:
// logprob [1] f32 = log softmax(logits)[token]; top_ids [K] i32, top_logprobs [K] f32: the K most
// likely, most likely first, lower id first among equals (for K = 0, give empty tensors).
struct LogprobOutputs {
  Tensor logprob;
  Tensor top_ids;
  Tensor top_logprobs;
};
void record_logprobs(Batch& batch, const LogprobOutputs& outputs, const Tensor& logits,
                     const Tensor& token);

}  // namespace clora
