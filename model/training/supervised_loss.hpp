// SupervisedLoss: the options of the loss of the next token (supervised training) besides the
// weights of records (model/data/records.hpp). Values and pure functions; thread-safe.
//
// The loss of an optimiser step is a mean over the labelled tokens of all of its micro-batches and
// ranks: sum of w l / sum of w, where l is the loss of a token (LossTerms of
// ops/loss/cross_entropy.hpp) and w the weight of its record.
#pragma once

namespace clora {

struct SupervisedLoss {
  double label_smoothing = 0;  // of torch's CrossEntropyLoss, in [0, 1)
  double z_loss = 0;           // factor of the square of log(sum of exp(logits)) (PaLM)
  // NEFTune (Jain et al., 2023, arXiv:2310.05914): in training, noise that is uniform in +-alpha /
  // sqrt(L D) is added to the embeddings of a record's L tokens, of D elements each.
  double neftune_alpha = 0;

  bool has_terms() const { return label_smoothing != 0 || z_loss != 0; }
  bool operator==(const SupervisedLoss&) const = default;
};

// Throws Error(invalid_argument), with the valid range, for a value out of range.
void check(const SupervisedLoss& loss);

}  // namespace clora
