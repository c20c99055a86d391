// The options of `clora train`, as the command line or a configuration file gives them.
#pragma once

#include <optional>
#include <string>

#include "clora/model/training/training_run.hpp"
#include "tools/clora/commands/common_options.hpp"
#include "tools/clora/commands/data_options.hpp"
#include "tools/clora/commands/embedding_task.hpp"
#include "tools/clora/training/evaluation_options.hpp"
#include "tools/clora/training/find_rate.hpp"
#include "tools/clora/training/memory_options.hpp"
#include "tools/clora/training/preference_options.hpp"
#include "tools/clora/training/report_options.hpp"
#include "tools/clora/training/run_options.hpp"
#include "tools/clora/training/split_options.hpp"
#include "tools/clora/training/supervised_options.hpp"
#include "tools/clora/training/training_adapter.hpp"

namespace clora {

struct TrainOptions {
  CommonOptions common;
  DataOptions data;
  EmbeddingTaskOptions task;
  PreferenceOptions preference;
  SupervisedOptions supervised;
  RunOptions run;
  FindRateOptions find_rate;
  EvaluationOptions evaluation;
  TrainingAdapterOptions adapter;
  MemoryOptions memory;
  ReportOptions report;
  SplitOptions split;
  std::optional<BlockRange> blocks;  // of this rank, if the model is split by layers
  std::string effective;             // the text of run.toml
};

// The run that the options describe, for this model.
TrainingRunConfig run_config(const TrainOptions& options, const ModelConfig& model);

}  // namespace clora
