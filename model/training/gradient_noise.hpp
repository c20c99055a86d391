// GradientNoise: the simple noise scale of the gradient, B = tr(S) / |G|^2 (McCandlish et al.,
// 2018, arXiv:1812.06162), with S the covariance of the gradient of one labelled token: about the
// number of tokens in a step beyond which larger steps hardly save any.
//
// It is estimated from the norms of two gradients over different numbers of tokens, as in the
// paper's appendix A.1: each is a mean, and their squares have the expectation |G|^2 + tr(S) /
// tokens. The estimates of |G|^2 and tr(S) of the steps are averaged separately, exponentially,
// before they are divided. Threads: one at a time.
#pragma once

#include <optional>

namespace clora {

class GradientNoise {
 public:
  static constexpr double kDecay = 0.99;  // of the averages, for each step

  // The squared norm of a mean gradient, and the weight of its tokens in the loss.
  struct Gradient {
    double square = 0;
    double tokens = 0;
  };
  // Adds a step. Ignores it unless part.tokens is above 0 and below all.tokens, and both squares
  // are finite.
  void add(const Gradient& part, const Gradient& all);

  // In labelled tokens; nullopt while an average is not above 0: before the first step, and
  // possibly for a few steps.
  std::optional<double> scale() const;

 private:
  double gradient_ = 0, noise_ = 0;  // of |G|^2 and tr(S)
};

}  // namespace clora
