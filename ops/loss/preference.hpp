// preference: losses that compare answers to prompts by their log-probabilities, and the gradients
// of the rows that predict them.
//
//   dpo   -log sigmoid(beta (c - r)), c and r the log-probabilities of a pair's preferred and
//         rejected answer less those of a reference model (Rafailov et al., 2023); with label
//         smoothing e, (1 - e) of it and e of that of the swapped pair (Mitchell, 2023)
//   ipo   (c / rows - r / rows - 1 / (2 beta))^2, by the mean of each answer (Azar et al., 2023)
//   orpo  -beta log sigmoid(log_odds(c) - log_odds(r)) of the means, without a reference, beside
//         the loss of the next token over the prompt and the preferred answer (Hong et al., 2024)
//   kto   of single answers that are desirable or not: 1 - sigmoid(+-beta (c - kl)), kl an estimate
//         of the divergence from the reference (Ethayarajh et al., 2024)
//
// The head's loss (cross_entropy.hpp) gives the losses of rows; these functions sum the losses of
// each answer, and give the derivative of the preference loss by each row's loss. The gradients of
// rows, computed with weight 1, are multiplied by these factors afterwards; a head that is trained
// itself computes its gradients in a second pass, with the factors as weights. All sums are in f32,
// compensated and in a fixed order. An op never waits.
#pragma once

#include "clora/ops/rowwise/segment_mean.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

enum class PreferenceKind { dpo, ipo, orpo, kto };

struct PreferenceFormula {
  PreferenceKind kind = PreferenceKind::dpo;
  float beta = 0.1F;
  float label_smoothing = 0;                           // of dpo
  float desirable_weight = 1, undesirable_weight = 1;  // of kto
};

// What a preference loss adds up, in this order on the device. Rewards are beta times the log-ratio
// to the reference; of orpo, beta times the mean log-probability.
struct PreferenceSums {
  float loss = 0;  // of pairs; of kto, of single answers
  float nll = 0;   // the losses of the rows of prompts and preferred answers, if they are wanted
  float chosen_reward = 0, rejected_reward = 0;
  float chosen_logp = 0, rejected_logp = 0;  // of orpo, of the means
  float chosen_count = 0, rejected_count = 0;
  float wins = 0;            // pairs whose preferred answer has the larger reward
  float log_odds_ratio = 0;  // of orpo: log sigmoid(log_odds)
  float log_odds = 0;
  float kl = 0;        // of kto
  float kl_count = 0;  // calls
};
inline constexpr std::int64_t kPreferenceSums = sizeof(PreferenceSums) / sizeof(float);

// Answer a is labelled rows answers.begin[a] to answers.end[a] - 1 of C; an empty range is no
// answer. Of pairs, answer 2 p is the preferred one, and 2 p + 1 the rejected one.
struct PreferenceInputs {
  Tensor loss;       // [C] f32, of the head with weight 1: -log of the probability of the target
  Segments answers;  // [C]
  Tensor answer;     // [C] i32: the number of the row's answer, or -1 for a row of a prompt
  Tensor reference;  // [C] f32: each answer's log-probability by the reference; of orpo unused
  Tensor label;      // [C] i32: 1 for a desirable answer; only of kto
  Tensor weights;    // [2] f32: 1 / pairs (answers) of the full step; 1 / rows of nll
  Tensor kl = {};    // [2] f32, of record_kl_sums(); only of kto
  bool nll = false;  // adds the loss of the next token
};

// Overwrites logps [C] f32 with the log-probability of each answer; 0 for none.
void record_answer_logps(Batch& batch, const Tensor& logps, const Tensor& loss,
                         const Segments& answers);

// Adds to sums [kPreferenceSums] f32. If row_factors [C] f32 is not empty, overwrites it with the
// derivatives, by the loss of each row, of weights[0] * the sum of the pairs' losses + weights[1] *
// nll. logps: of record_answer_logps(). REQUIRES: beta above 0.
void record_preference_loss(Batch& batch, const Tensor& sums, const Tensor& row_factors,
                            const Tensor& logps, const PreferenceInputs& inputs,
                            const PreferenceFormula& formula);

// Multiplies each row of dx [C, D] f32 by its factor [C] f32.
void record_scaled_rows(Batch& batch, const Tensor& dx, const Tensor& row_factors);

// Adds to kl [2] f32 the sum of logps - reference over the answers, and the number of answers. The
// KL term is the mean, or 0 if it is negative.
void record_kl_sums(Batch& batch, const Tensor& kl, const Tensor& logps, const Segments& answers,
                    const Tensor& reference);

}  // namespace clora
