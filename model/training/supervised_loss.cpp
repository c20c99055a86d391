#include "clora/model/training/supervised_loss.hpp"

#include <cmath>

#include "runtime/fail.hpp"

namespace clora {

void check(const SupervisedLoss& loss) {
  require(loss.label_smoothing >= 0 && loss.label_smoothing < 1,
          "training: the label smoothing must be at least 0 and below 1, got {}",
          loss.label_smoothing);
  require(std::isfinite(loss.z_loss) && loss.z_loss >= 0,
          "training: the weight of the z-loss must be finite and at least 0, got {}", loss.z_loss);
  require(std::isfinite(loss.neftune_alpha) && loss.neftune_alpha >= 0,
          "training: the alpha of NEFTune must be finite and at least 0, got {}",
          loss.neftune_alpha);
}

}  // namespace clora
