#include "model/training/gradient_noise.hpp"

#include <cmath>

namespace clora {

void GradientNoise::add(const Gradient& part, const Gradient& all) {
  if (!(part.tokens > 0 && part.tokens < all.tokens)) return;
  if (!std::isfinite(part.square) || !std::isfinite(all.square)) return;
  const double gradient =
      (all.tokens * all.square - part.tokens * part.square) / (all.tokens - part.tokens);
  const double noise = (part.square - all.square) / (1 / part.tokens - 1 / all.tokens);
  gradient_ = kDecay * gradient_ + (1 - kDecay) * gradient;
  noise_ = kDecay * noise_ + (1 - kDecay) * noise;
}

// Both averages are biased towards 0 by the same factor, so that their quotient is not.
std::optional<double> GradientNoise::scale() const {
  if (!(gradient_ > 0) || !(noise_ > 0)) return std::nullopt;
  return noise_ / gradient_;
}

}  // namespace clora
