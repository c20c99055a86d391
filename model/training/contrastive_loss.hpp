// ContrastiveLoss: what a model that embeds texts is trained on, instead of the next token:
// record_contrastive_loss() of the cosines of its vectors (ops/loss/contrastive.hpp), over the
// pairs and triplets of a micro-batch.
#pragma once

#include "clora/model/configuration/model_config.hpp"

namespace clora {

struct ContrastiveLoss {
  Pooling pooling = Pooling::mean;
  double scale = 20;  // of the cosines: 1 / temperature
};

}  // namespace clora
