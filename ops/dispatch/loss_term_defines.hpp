// The -D parameters of cl/loss/loss_terms.clh, and the weights of the rows of these kernels.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "clora/ops/loss/cross_entropy.hpp"
#include "clora/runtime/programs/program_cache.hpp"
#include "runtime/fail.hpp"

namespace clora {

// Without terms, the program is that of before.
inline void define_loss_terms(Defines& defines, const LossTerms& terms) {
  if (!terms.any()) return;
  defines.set("LABEL_SMOOTHING", fmt::format("{:.9e}f", terms.label_smoothing));
  defines.set("Z_LOSS", fmt::format("{:.9e}f", terms.z_loss));
}

inline void require_loss_terms(std::string_view op, const LossTerms& terms, bool gradient,
                               std::int64_t rows) {
  require(terms.label_smoothing >= 0 && terms.label_smoothing < 1,
          "{}: the label smoothing must be at least 0 and below 1, got {}", op,
          terms.label_smoothing);
  require(std::isfinite(terms.z_loss) && terms.z_loss >= 0,
          "{}: the weight of the z-loss must be finite and at least 0, got {}", op, terms.z_loss);
  if (!terms.any()) return;
  require(gradient, "{}: label smoothing and the z-loss require a gradient; leave them out", op);
  require_tensor(op, "nll", terms.nll, {rows});
}

// Checks the weight of a loss, and returns the elements of it from one row's to the next.
inline std::int32_t loss_weight_step(std::string_view op, const Tensor& weight, std::int64_t rows) {
  const bool has_each = rows > 1 && !weight.empty() && weight.elements() > 1;
  require_tensor(op, "weight", weight, {has_each ? rows : 1});
  return has_each ? 1 : 0;
}

}  // namespace clora
