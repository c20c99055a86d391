#include "tools/clora/training/train_options.hpp"

namespace clora {

TrainingRunConfig run_config(const TrainOptions& options, const ModelConfig& model) {
  TrainingRunConfig config = options.run.config();
  options.evaluation.apply_to(config);
  config.contrastive = contrastive_loss_of(options.task, options.common.model, model);
  options.preference.apply_to(config);
  options.supervised.apply_to(config);
  config.seed = options.common.seed;
  config.frozen_ranks = options.adapter.frozen_ranks();
  config.max_seq_length = options.data.max_seq_length;
  return config;
}

}  // namespace clora
