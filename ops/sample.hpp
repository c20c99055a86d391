// sample: the next token of each of N rows of logits, on the device, with settings per row; only
// ids and log-probabilities are read back.
//
// Order (docs/decisions/sampling.md):
//   1. logit bias, added; -INFINITY excludes the token
//   2. penalties: the logit of a token in the prompt or the reply is divided by the repetition
//      penalty if positive, multiplied if not (Keskar et al., 2019); then presence + n * frequency
//      is subtracted if the reply has the token n > 0 times (OpenAI)
//   3. mask: a token that it does not allow is excluded
//   4. temperature; if it is 0 or less, the largest logit; the lowest id among equals
//   5. top-k, typical (Meister et al., 2023), top-p (Holtzman et al., 2020), min-p (relative to the
//      likeliest token left), each on what the filter before has left
//   6. a draw with the counter-based random number of (seed, step)
//
// Every filter keeps a prefix of the tokens by rank, the lower id first among equals; the rank is
// that of the probability, in typical that of the distance between the token's surprisal and the
// entropy. top-p and typical keep the shortest prefix whose share of the mass left reaches their
// value, and at least one token. The random number is the upper 24 bits of the first word of
// Philox2x32 with 10 rounds (Salmon et al., 2011), key seed, counter (step, 0); the token drawn is
// the first, in order of (id mod 1024, id), at which the running sum of probabilities exceeds it.
// Tokens of less than 2^-40 of the largest probability are never drawn.
//
// A row's token depends on its own logits, settings and state only, not on N or the other rows.
#pragma once

#include <span>
#include <vector>

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// Returned instead of a token:
// a logit that is not excluded is NaN or infinite, after bias and penalties; or the row is padding.
inline constexpr std::int32_t kNoToken = -1;
// Biases and mask exclude every token.
inline constexpr std::int32_t kNothingAllowed = -2;
// The settings use a tensor that was not given, or a slot or a number of biases beyond it.
inline constexpr std::int32_t kNoSampleState = -3;

// The settings of a row. On the device they are 16 words in this order (floats and integers by
// their bits), written by the host before each step.
struct SampleSettings {
  float temperature = 0;
  std::int32_t top_k = 0;        // 0: off
  float top_p = 1;               // 1: off
  float min_p = 0;               // 0: off
  float typical_p = 1;           // 1: off
  float repetition_penalty = 1;  // 1: off; above 0
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::uint32_t seed = 0;
  std::uint32_t step = 0;  // number of the token drawn
  // Of the sequence's state: its row of counts, biases and latest. -1: the row is padding; nothing
  // is read or written, and its token is kNoToken.
  std::int32_t slot = 0;
  std::int32_t bias_count = 0;     // the slot's first biases
  std::uint32_t uses_mask = 0;     // 1: the row's mask applies
  std::uint32_t keeps_latest = 1;  // 0: latest is not written
  std::uint32_t unused[2] = {};
};
static_assert(sizeof(SampleSettings) == 16 * sizeof(float));
inline constexpr std::int64_t kSampleSettingWords = 16;

// What settings of rows may use. Each may be an empty tensor if no row uses it; a row that does so
// nevertheless gives kNoSampleState.
struct SampleState {
  // [S, V] u32: how often the reply of each slot has each token, and in the highest bit whether the
  // prompt has it (token_counts()). Read for rows with penalties, which count their token in it.
  Tensor counts = {};
  Tensor bias_ids = {};     // [S, B] i32; ids outside [0, V) have no effect
  Tensor bias_values = {};  // [S, B] f32
  Tensor mask = {};         // [N, ceil(V / 32)] u32: bit v % 32 of word v / 32 is 1 if v is allowed
  Tensor latest = {};       // [S] i32: latest[slot] = token
};

// Overwrites tokens [N] i32, and the rows' parts of latest and counts. settings [N, 16] u32,
// logits [N, V] f32. REQUIRES: two rows have the same slot only if they have no penalties and at
// most one keeps latest.
void record_sample(Batch& batch, const Tensor& tokens, const Tensor& settings, const Tensor& logits,
                   const SampleState& state = {});

// A row of SampleState::counts. REQUIRES: ids in [0, vocabulary).
std::vector<std::uint32_t> token_counts(std::int64_t vocabulary,
                                        std::span<const std::int32_t> prompt,
                                        std::span<const std::int32_t> reply = {});

// ids_out[t] = source[t] >= 0 ? latest[source[t]] : ids[t], all [T] i32, latest [S] i32; 0 in place
// of a latest token below 0. ids_out may alias ids. REQUIRES: source[t] < S.
void record_pick_ids(Batch& batch, const Tensor& ids_out, const Tensor& ids, const Tensor& source,
                     const Tensor& latest);

inline constexpr std::int64_t kMaxTopLogprobs = 32;

// The model's own distribution, before biases, penalties, mask, temperature and filters:
// logprob [N] f32 = log softmax(logits)[token]; top_ids [N, K] i32, top_logprobs [N, K] f32: the K
// most likely, most likely first, lower id first among equals (for K = 0, give empty tensors).
// A row whose token is not in [0, V) gets the logprob NaN, and no top_ids and top_logprobs.
struct LogprobOutputs {
  Tensor logprob;
  Tensor top_ids;
  Tensor top_logprobs;
};
// tokens [N] i32, logits [N, V] f32. K is at most kMaxTopLogprobs and V.
void record_logprobs(Batch& batch, const LogprobOutputs& outputs, const Tensor& logits,
                     const Tensor& tokens);

}  // namespace clora
