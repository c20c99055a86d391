// Links one module and those below it.
#include <cstdio>

#include "clora/model/training/training_run.hpp"

int main() {
  clora::TrainingRunConfig config;
  config.batch_size = 4;
  std::printf("steps %d\n", static_cast<int>(clora::total_steps(config, 12)));
}
